// Entry points: what is known about a range of managed memory. Where its pages lie is not
// simulated, and advice has no effect: no location is preferred, none was the last to be prefetched
// to.
#include <cuda.h>

#include <cstring>

#include "sim/context.h"
#include "sim/entry.h"
#include "sim/memory.h"
#include "sim/try.h"

using namespace vram::sim;

namespace {

CUresult range_attribute(void* data, size_t bytes, CUmem_range_attribute attribute) {
  if (data == nullptr || bytes == 0 || bytes % sizeof(int) != 0) return CUDA_ERROR_INVALID_VALUE;
  int value = CU_DEVICE_INVALID;
  switch (attribute) {
    case CU_MEM_RANGE_ATTRIBUTE_READ_MOSTLY:
      value = 0;
      break;
    case CU_MEM_RANGE_ATTRIBUTE_PREFERRED_LOCATION_TYPE:
    case CU_MEM_RANGE_ATTRIBUTE_LAST_PREFETCH_LOCATION_TYPE:
      value = CU_MEM_LOCATION_TYPE_INVALID;
      break;
    case CU_MEM_RANGE_ATTRIBUTE_PREFERRED_LOCATION:
    case CU_MEM_RANGE_ATTRIBUTE_PREFERRED_LOCATION_ID:
    case CU_MEM_RANGE_ATTRIBUTE_LAST_PREFETCH_LOCATION:
    case CU_MEM_RANGE_ATTRIBUTE_LAST_PREFETCH_LOCATION_ID:
    case CU_MEM_RANGE_ATTRIBUTE_ACCESSED_BY:
      break;
    default:
      return CUDA_ERROR_INVALID_VALUE;
  }
  // All but the list of devices have one element.
  if (attribute != CU_MEM_RANGE_ATTRIBUTE_ACCESSED_BY && bytes != sizeof(int)) {
    return CUDA_ERROR_INVALID_VALUE;
  }
  for (size_t at = 0; at < bytes; at += sizeof(int)) {
    std::memcpy(static_cast<char*>(data) + at, &value, sizeof(int));
  }
  return CUDA_SUCCESS;
}

CUresult require_managed(CUdeviceptr address, size_t bytes) {
  VRAM_SIM_TRY(require_initialized());
  Allocation allocation;
  const bool managed =
      find_allocation(address, &allocation) && allocation.kind == MemoryKind::kManaged;
  return managed && host_view(address, bytes) != nullptr ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}

}  // namespace

CUresult cuMemRangeGetAttribute(void* data, size_t data_bytes, CUmem_range_attribute attribute,
                                CUdeviceptr address, size_t bytes) {
  VRAM_SIM_ENTER();
  VRAM_SIM_TRY(require_managed(address, bytes));
  return range_attribute(data, data_bytes, attribute);
}

CUresult cuMemRangeGetAttributes(void** data, size_t* data_bytes, CUmem_range_attribute* attributes,
                                 size_t count, CUdeviceptr address, size_t bytes) {
  VRAM_SIM_ENTER();
  VRAM_SIM_TRY(require_managed(address, bytes));
  if (data == nullptr || data_bytes == nullptr || attributes == nullptr || count == 0) {
    return CUDA_ERROR_INVALID_VALUE;
  }
  for (size_t i = 0; i < count; ++i) {
    VRAM_SIM_TRY(range_attribute(data[i], data_bytes[i], attributes[i]));
  }
  return CUDA_SUCCESS;
}
