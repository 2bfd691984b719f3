// Questions about an address. In a pool of ours a block is part of a page, or of several: the
// driver knows the pages, the program its blocks. And what is moved has other memory of the driver
// behind it afterwards, while it is the same to the program.

#include "interpose/elastic.h"
#include "interpose/export.h"
#include "interpose/own_pools.h"
#include "interpose/pins.h"

namespace vram::interpose {
namespace {

using driver::real;

// Above what a driver counts up to, and apart from the numbers of blocks.
constexpr std::uint64_t kMappingNumbers = std::uint64_t{1} << 61;

enum class Whose { kDrivers, kBlock, kMapping, kNobodys };

struct Found {
  Whose whose;
  OwnBlock block;        // of a pool of ours
  std::uint64_t number;  // of a block or a mapping
};

Found look_up(CUdeviceptr address) {
  Found found{};
  if (is_in_own_pool(address)) {
    found.whose = own_block_around(address, &found.block) ? Whose::kBlock : Whose::kNobodys;
    found.number = found.block.number;
    return found;
  }
  residency::ElasticMemory* elastic = elastic_memory();
  const std::uint64_t number = elastic == nullptr ? 0 : elastic->number_at(address);
  found.whose = number == 0 ? Whose::kDrivers : Whose::kMapping;
  found.number = kMappingNumbers | number;
  return found;
}

// True: this is the answer, whatever the driver says of the page.
bool answer(const Found& found, CUpointer_attribute which, void* data) {
  if (found.whose != Whose::kBlock && found.whose != Whose::kMapping) return false;
  if (which == CU_POINTER_ATTRIBUTE_BUFFER_ID) {
    *static_cast<unsigned long long*>(data) = found.number;
    return true;
  }
  if (found.whose != Whose::kBlock) return false;
  switch (which) {
    case CU_POINTER_ATTRIBUTE_RANGE_START_ADDR:
      *static_cast<CUdeviceptr*>(data) = found.block.start;
      return true;
    case CU_POINTER_ATTRIBUTE_RANGE_SIZE:
      *static_cast<std::size_t*>(data) = found.block.bytes;
      return true;
    case CU_POINTER_ATTRIBUTE_CONTEXT:
      *static_cast<CUcontext*>(data) = found.block.context;
      return true;
    default:
      return false;
  }
}

}  // namespace
}  // namespace vram::interpose

using namespace vram::interpose;
using vram::driver::real;

VRAM_EXPORT CUresult cuMemGetAddressRange_v2(CUdeviceptr* base, size_t* bytes,
                                             CUdeviceptr address) {
  VRAM_PASS(cuMemGetAddressRange_v2, base, bytes, address);
  if (!is_in_own_pool(address)) return real.cuMemGetAddressRange_v2(base, bytes, address);
  OwnBlock block{};
  if (!own_block_around(address, &block)) return CUDA_ERROR_NOT_FOUND;
  if (base != nullptr) *base = block.start;
  if (bytes != nullptr) *bytes = block.bytes;
  return CUDA_SUCCESS;
}

// CUDA 2's version: no pool of ours lies that low.
VRAM_EXPORT CUresult cuMemGetAddressRange(CUdeviceptr_v1* base, unsigned* bytes,
                                          CUdeviceptr_v1 address) {
  VRAM_PASS(cuMemGetAddressRange, base, bytes, address);
  return real.cuMemGetAddressRange(base, bytes, address);
}

VRAM_EXPORT CUresult cuPointerGetAttribute(void* data, CUpointer_attribute which,
                                           CUdeviceptr address) {
  VRAM_PASS(cuPointerGetAttribute, data, which, address);
  const Found found = look_up(address);
  if (found.whose == Whose::kNobodys) return CUDA_ERROR_INVALID_VALUE;
  if (data != nullptr && answer(found, which, data)) return CUDA_SUCCESS;
  return real.cuPointerGetAttribute(data, which, address);
}

VRAM_EXPORT CUresult cuPointerGetAttributes(unsigned count, CUpointer_attribute* which, void** data,
                                            CUdeviceptr address) {
  VRAM_PASS(cuPointerGetAttributes, count, which, data, address);
  const Found found = look_up(address);
  // An address that is nobody's is asked about as any of the host's is.
  const int nothing = 0;
  const bool nobodys = found.whose == Whose::kNobodys;
  const CUresult result = real.cuPointerGetAttributes(
      count, which, data, nobodys ? reinterpret_cast<CUdeviceptr>(&nothing) : address);
  for (unsigned i = 0; result == CUDA_SUCCESS && i < count; ++i) {
    if (data[i] != nullptr) (void)answer(found, which[i], data[i]);
  }
  return result;
}

// Set by programs that let a network card reach the memory, which no call tells otherwise: what it
// reaches must not move.
VRAM_EXPORT CUresult cuPointerSetAttribute(const void* value, CUpointer_attribute which,
                                           CUdeviceptr address) {
  VRAM_ENTER(cuPointerSetAttribute, value, which, address);
  const auto call = [&] { return real.cuPointerSetAttribute(value, which, address); };
  if (which == CU_POINTER_ATTRIBUTE_SYNC_MEMOPS) {
    return pinning([&] {
      const CUresult result = call();
      if (result == CUDA_SUCCESS) share_around(address);
      return result;
    });
  }
  const vram::residency::Through through;
  return call();
}
