// Questions about an address. In a pool of ours a block is part of a page, or of several: the
// driver knows the pages, the program its blocks.

#include "interpose/export.h"
#include "interpose/own_pools.h"

namespace vram::interpose {
namespace {

using driver::real;

enum class Whose { kDrivers, kBlock, kNobodys };

struct Range {
  CUdeviceptr start;
  std::uint64_t bytes;
};

Whose look_up(CUdeviceptr address, Range* range) {
  if (!is_in_own_pool(address)) return Whose::kDrivers;
  return own_block_around(address, &range->start, &range->bytes) ? Whose::kBlock : Whose::kNobodys;
}

// What differs from the answer for the page.
void answer_for_block(CUpointer_attribute which, const Range& block, CUdeviceptr address,
                      void* data) {
  switch (which) {
    case CU_POINTER_ATTRIBUTE_RANGE_START_ADDR:
      *static_cast<CUdeviceptr*>(data) = block.start;
      return;
    case CU_POINTER_ATTRIBUTE_RANGE_SIZE:
      *static_cast<std::size_t*>(data) = block.bytes;
      return;
    case CU_POINTER_ATTRIBUTE_CONTEXT:
      *static_cast<CUcontext*>(data) = own_context_of(address);
      return;
    default:
      return;
  }
}

// The page's answer for an attribute that a mapping has none of is an error.
bool is_answered_for_block(CUpointer_attribute which) {
  return which == CU_POINTER_ATTRIBUTE_RANGE_START_ADDR ||
         which == CU_POINTER_ATTRIBUTE_RANGE_SIZE || which == CU_POINTER_ATTRIBUTE_CONTEXT;
}

}  // namespace
}  // namespace vram::interpose

using namespace vram::interpose;
using vram::driver::real;

VRAM_EXPORT CUresult cuMemGetAddressRange_v2(CUdeviceptr* base, size_t* bytes,
                                             CUdeviceptr address) {
  VRAM_PASS(cuMemGetAddressRange_v2, base, bytes, address);
  Range range{};
  const Whose whose = look_up(address, &range);
  if (whose == Whose::kDrivers) return real.cuMemGetAddressRange_v2(base, bytes, address);
  if (whose == Whose::kNobodys) return CUDA_ERROR_NOT_FOUND;
  if (base != nullptr) *base = range.start;
  if (bytes != nullptr) *bytes = range.bytes;
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
  Range range{};
  const Whose whose = data == nullptr ? Whose::kDrivers : look_up(address, &range);
  if (whose == Whose::kNobodys) return CUDA_ERROR_INVALID_VALUE;
  if (whose == Whose::kDrivers || !is_answered_for_block(which)) {
    return real.cuPointerGetAttribute(data, which, address);
  }
  answer_for_block(which, range, address, data);
  return CUDA_SUCCESS;
}

VRAM_EXPORT CUresult cuPointerGetAttributes(unsigned count, CUpointer_attribute* which, void** data,
                                            CUdeviceptr address) {
  VRAM_PASS(cuPointerGetAttributes, count, which, data, address);
  Range range{};
  const Whose whose = look_up(address, &range);
  // An address that is nobody's is asked about as any of the host's is.
  const int nothing = 0;
  const CUresult result = real.cuPointerGetAttributes(
      count, which, data,
      whose == Whose::kNobodys ? reinterpret_cast<CUdeviceptr>(&nothing) : address);
  if (result != CUDA_SUCCESS || whose != Whose::kBlock) return result;
  for (unsigned i = 0; i < count; ++i) {
    if (data[i] != nullptr) answer_for_block(which[i], range, address, data[i]);
  }
  return result;
}
