// Arrays. How much an array takes depends on its layout, which only the driver knows; it tells for
// an array whose memory comes later ("deferred mapping"). So a twin of that kind is made, asked,
// and destroyed, before the array itself.

#include "interpose/block.h"
#include "interpose/export.h"
#include "interpose/priced.h"
#include "interpose/room.h"
#include "interpose/trace.h"

namespace vram::interpose {
namespace {

using driver::real;
using ledger::Account;

constexpr std::uint64_t kPiece = 2 * kMiB;
constexpr std::uint64_t kLargestSmall = kMiB;
// These have no memory of their own; it is mapped into them from handles, which are charged.
constexpr unsigned kWithoutMemory = CUDA_ARRAY3D_SPARSE | CUDA_ARRAY3D_DEFERRED_MAPPING;

std::uint64_t element_bytes(CUarray_format format) {
  switch (format) {
    case CU_AD_FORMAT_UNSIGNED_INT8:
    case CU_AD_FORMAT_SIGNED_INT8:
      return 1;
    case CU_AD_FORMAT_UNSIGNED_INT16:
    case CU_AD_FORMAT_SIGNED_INT16:
    case CU_AD_FORMAT_HALF:
      return 2;
    default:
      return 4;
  }
}

std::uint64_t or_one(std::uint64_t extent) { return extent == 0 ? 1 : extent; }

// Without the driver's word: the elements, and a third more for the smaller levels of a mipmap.
std::uint64_t estimate(const CUDA_ARRAY3D_DESCRIPTOR& d, unsigned levels) {
  const std::uint64_t elements = or_one(d.Width) * or_one(d.Height) * or_one(d.Depth);
  const std::uint64_t bytes = elements * element_bytes(d.Format) * d.NumChannels;
  return levels > 1 ? bytes + bytes / 3 : bytes;
}

std::uint64_t array_bytes(CUDA_ARRAY3D_DESCRIPTOR d, CUdevice ordinal) {
  d.Flags |= CUDA_ARRAY3D_DEFERRED_MAPPING;
  CUarray twin = nullptr;
  CUDA_ARRAY_MEMORY_REQUIREMENTS needs{};
  if (real.cuArrayGetMemoryRequirements == nullptr ||
      real.cuArray3DCreate_v2(&twin, &d) != CUDA_SUCCESS) {
    return estimate(d, 1);
  }
  const CUresult told = real.cuArrayGetMemoryRequirements(&needs, twin, ordinal);
  real.cuArrayDestroy(twin);
  return told == CUDA_SUCCESS ? needs.size : estimate(d, 1);
}

std::uint64_t mipmap_bytes(CUDA_ARRAY3D_DESCRIPTOR d, unsigned levels, CUdevice ordinal) {
  d.Flags |= CUDA_ARRAY3D_DEFERRED_MAPPING;
  CUmipmappedArray twin = nullptr;
  CUDA_ARRAY_MEMORY_REQUIREMENTS needs{};
  if (real.cuMipmappedArrayGetMemoryRequirements == nullptr ||
      real.cuMipmappedArrayCreate(&twin, &d, levels) != CUDA_SUCCESS) {
    return estimate(d, levels);
  }
  const CUresult told = real.cuMipmappedArrayGetMemoryRequirements(&needs, twin, ordinal);
  real.cuMipmappedArrayDestroy(twin);
  return told == CUDA_SUCCESS ? needs.size : estimate(d, levels);
}

std::uint64_t pieces(std::uint64_t bytes) { return round_up(bytes, kPiece); }

// Small arrays share slabs of 2 MiB with others of their element size, and an array has no address
// that would tell which. So one may cost a slab or nothing: it is priced as a slab, and measured.
bool is_small(std::uint64_t bytes) { return bytes <= kLargestSmall; }

template <typename Handle, typename Size, typename Call, typename Destroy>
CUresult make_governed(const Here& here, Handle* out, Size size, Call call, Destroy destroy) {
  const std::uint64_t needs = round_up(size(static_cast<CUdevice>(here.ordinal)), wire::kGranule);
  const auto key = [&] { return reinterpret_cast<std::uint64_t>(*out); };
  const auto note = [&] {
    const Block block{needs, here.ordinal, here.context, Kind::kArray};
    if (process().blocks.insert(key(), pack(block))) return true;
    destroy(*out);
    return false;
  };
  if (is_small(needs)) {
    return take_priced(*here.device, kPiece, call, note, [&] {
      std::uint64_t value = 0;
      process().blocks.take(key(), &value);
      destroy(*out);
    });
  }
  return take_charged(*here.device, here.device->account, pieces(needs), wire::Part::kBlocks, call,
                      note);
}

template <typename Handle, typename Size, typename Call, typename Destroy>
CUresult make(Handle* out, const Taking& asked, unsigned flags, Size size, Call call,
              Destroy destroy) {
  Here here{};
  if (out == nullptr || (flags & kWithoutMemory) != 0 || !locate(&here)) return call();
  const auto attempt = [&] { return make_governed(here, out, size, call, destroy); };
  return noted(with_room_to_stay(*here.device, asked.bytes, attempt), asked, out);
}

template <typename Handle, typename Call>
CUresult unmake(Handle handle, Call bare) {
  const auto key = reinterpret_cast<std::uint64_t>(handle);
  const auto call = [&] { return freed(KeySpace::kArray, key, nullptr, bare); };
  std::uint64_t value = 0;
  if (!process().blocks.take(key, &value)) return call();
  const Block block = unpack_block(value);
  const Account& account = process().device[block.device].account;
  const std::uint64_t pending = pieces(block.bytes);
  account.begin_release(pending);
  const CUresult result = call();
  if (result != CUDA_SUCCESS) (void)process().blocks.insert(key, value);
  const bool gone = result == CUDA_SUCCESS;
  // A charge goes while the call is still pending; a measurement works only afterwards.
  if (gone && !is_small(block.bytes)) forget_array(block);
  account.keep(pending);
  if (gone && is_small(block.bytes)) forget_array(block);
  return result;
}

// All versions' descriptors in the form of the newest.
template <typename Flat>
CUDA_ARRAY3D_DESCRIPTOR flat(const Flat* d) {
  CUDA_ARRAY3D_DESCRIPTOR out{};
  if (d == nullptr) return out;
  out.Width = d->Width;
  out.Height = d->Height;
  out.Format = d->Format;
  out.NumChannels = d->NumChannels;
  return out;
}

template <typename Deep>
CUDA_ARRAY3D_DESCRIPTOR deep(const Deep* d) {
  CUDA_ARRAY3D_DESCRIPTOR out = flat(d);
  if (d == nullptr) return out;
  out.Depth = d->Depth;
  out.Flags = d->Flags;
  return out;
}

template <typename Call>
CUresult make_array(CUarray* array, const CUDA_ARRAY3D_DESCRIPTOR& d, Call call) {
  return make(
      array, {Way::kArray, estimate(d, 1)}, d.Flags,
      [&](CUdevice ordinal) { return array_bytes(d, ordinal); }, call,
      [](CUarray made) { real.cuArrayDestroy(made); });
}

}  // namespace

void forget_array(const Block& block) {
  Device& device = process().device[block.device];
  if (is_small(block.bytes)) return settle_priced(device, kPiece);
  device.account.add_part(wire::Part::kBlocks, -static_cast<std::int64_t>(pieces(block.bytes)));
  device.account.uncharge(pieces(block.bytes));
}

}  // namespace vram::interpose

using namespace vram::interpose;
using vram::driver::real;

VRAM_EXPORT CUresult cuArrayCreate(CUarray* array, const CUDA_ARRAY_DESCRIPTOR_v1* d) {
  VRAM_ENTER(cuArrayCreate, array, d);
  return make_array(array, flat(d), [&] { return real.cuArrayCreate(array, d); });
}

VRAM_EXPORT CUresult cuArrayCreate_v2(CUarray* array, const CUDA_ARRAY_DESCRIPTOR* d) {
  VRAM_ENTER(cuArrayCreate_v2, array, d);
  return make_array(array, flat(d), [&] { return real.cuArrayCreate_v2(array, d); });
}

VRAM_EXPORT CUresult cuArray3DCreate(CUarray* array, const CUDA_ARRAY3D_DESCRIPTOR_v1* d) {
  VRAM_ENTER(cuArray3DCreate, array, d);
  return make_array(array, deep(d), [&] { return real.cuArray3DCreate(array, d); });
}

VRAM_EXPORT CUresult cuArray3DCreate_v2(CUarray* array, const CUDA_ARRAY3D_DESCRIPTOR* d) {
  VRAM_ENTER(cuArray3DCreate_v2, array, d);
  return make_array(array, deep(d), [&] { return real.cuArray3DCreate_v2(array, d); });
}

VRAM_EXPORT CUresult cuArrayDestroy(CUarray array) {
  VRAM_PASS_BACK(cuArrayDestroy, array);
  return unmake(array, [&] { return real.cuArrayDestroy(array); });
}

VRAM_EXPORT CUresult cuMipmappedArrayCreate(CUmipmappedArray* array,
                                            const CUDA_ARRAY3D_DESCRIPTOR* d, unsigned levels) {
  VRAM_ENTER(cuMipmappedArrayCreate, array, d, levels);
  const CUDA_ARRAY3D_DESCRIPTOR descriptor = deep(d);
  return make(
      array, {Way::kMipmap, estimate(descriptor, levels)}, descriptor.Flags,
      [&](CUdevice ordinal) { return mipmap_bytes(descriptor, levels, ordinal); },
      [&] { return real.cuMipmappedArrayCreate(array, d, levels); },
      [](CUmipmappedArray made) { real.cuMipmappedArrayDestroy(made); });
}

VRAM_EXPORT CUresult cuMipmappedArrayDestroy(CUmipmappedArray array) {
  VRAM_PASS_BACK(cuMipmappedArrayDestroy, array);
  return unmake(array, [&] { return real.cuMipmappedArrayDestroy(array); });
}
