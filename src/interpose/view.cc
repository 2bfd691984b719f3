// What the program sees of the card: its budget.

#include "interpose/away.h"
#include "interpose/departed.h"
#include "interpose/export.h"
#include "interpose/job.h"
#include "interpose/measure.h"
#include "interpose/own_pools.h"

namespace vram::interpose {
namespace {

using driver::real;

struct View {
  std::uint64_t free;
  std::uint64_t total;
};

// Free is what the budget has left, and never more than the card has. Near the limit it is measured
// as an allocation would: what is shown as free can be had. What an own pool has idle is free.
View budget(Device& device, View card) {
  reap_departed(*job());
  measure_near_limit(device, 0);
  measure_if_due(device);
  const ledger::Usage usage = device.account.usage();
  const std::uint64_t total = least(usage.limit, card.total);
  const std::uint64_t idle = own_idle(device);
  // Parked memory is the program's all the same.
  const std::uint64_t held = usage.used + parked_bytes(device) + own_tables_due(device);
  const std::uint64_t used = held > idle ? held - idle : 0;
  const std::uint64_t left = usage.limit > used ? usage.limit - used : 0;
  return {least(left, card.free + idle), total};
}

std::uint64_t visible_total(CUdevice ordinal, std::uint64_t total) {
  const Device* device = device_at(ordinal);
  return device == nullptr ? total : least(device->account.usage().limit, total);
}

template <typename Size>
Size clamp(std::uint64_t bytes) {
  return static_cast<Size>(least(bytes, static_cast<Size>(~Size{0})));
}

}  // namespace
}  // namespace vram::interpose

using namespace vram::interpose;
using vram::driver::real;

VRAM_EXPORT CUresult cuMemGetInfo_v2(size_t* free, size_t* total) {
  VRAM_ENTER(cuMemGetInfo_v2, free, total);
  const CUresult result = real.cuMemGetInfo_v2(free, total);
  Here here{};
  if (result != CUDA_SUCCESS || !locate(&here)) return result;
  const View view = budget(*here.device, {*free, *total});
  *free = view.free;
  *total = view.total;
  return result;
}

// CUDA 2's version: a larger figure does not fit and is cut, as the driver does.
VRAM_EXPORT CUresult cuMemGetInfo(unsigned* free, unsigned* total) {
  VRAM_ENTER(cuMemGetInfo, free, total);
  const CUresult result = real.cuMemGetInfo(free, total);
  std::size_t wide_free = 0;
  std::size_t wide_total = 0;
  Here here{};
  if (result != CUDA_SUCCESS || !locate(&here) ||
      real.cuMemGetInfo_v2(&wide_free, &wide_total) != CUDA_SUCCESS) {
    return result;
  }
  const View view = budget(*here.device, {wide_free, wide_total});
  *free = clamp<unsigned>(view.free);
  *total = clamp<unsigned>(view.total);
  return result;
}

VRAM_EXPORT CUresult cuDeviceTotalMem_v2(size_t* bytes, CUdevice ordinal) {
  VRAM_ENTER(cuDeviceTotalMem_v2, bytes, ordinal);
  const CUresult result = real.cuDeviceTotalMem_v2(bytes, ordinal);
  if (result == CUDA_SUCCESS) *bytes = visible_total(ordinal, *bytes);
  return result;
}

VRAM_EXPORT CUresult cuDeviceTotalMem(unsigned* bytes, CUdevice ordinal) {
  VRAM_ENTER(cuDeviceTotalMem, bytes, ordinal);
  const CUresult result = real.cuDeviceTotalMem(bytes, ordinal);
  std::size_t wide = 0;
  if (result != CUDA_SUCCESS || real.cuDeviceTotalMem_v2(&wide, ordinal) != CUDA_SUCCESS) {
    return result;
  }
  *bytes = clamp<unsigned>(visible_total(ordinal, wide));
  return result;
}
