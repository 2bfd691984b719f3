// Entry points: virtual memory.
#include <cuda.h>

#include <bit>

#include "sim/context.h"
#include "sim/costs.h"
#include "sim/dma_buf.h"
#include "sim/driver.h"
#include "sim/entry.h"
#include "sim/identity.h"
#include "sim/try.h"
#include "sim/virtual_memory.h"

using namespace vram::sim;

namespace {

CUresult check_location(const CUmemLocation& location) {
  switch (location.type) {
    case CU_MEM_LOCATION_TYPE_DEVICE:
      return require_device(location.id);
    case CU_MEM_LOCATION_TYPE_HOST:
    case CU_MEM_LOCATION_TYPE_HOST_NUMA_CURRENT:
      return CUDA_SUCCESS;
    case CU_MEM_LOCATION_TYPE_HOST_NUMA:
      return location.id >= 0 ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
    default:
      return CUDA_ERROR_INVALID_VALUE;
  }
}

CUresult check_properties(const CUmemAllocationProp& properties) {
  if (properties.type != CU_MEM_ALLOCATION_TYPE_PINNED) return CUDA_ERROR_INVALID_VALUE;
  VRAM_SIM_TRY(check_location(properties.location));
  switch (properties.requestedHandleTypes) {
    case CU_MEM_HANDLE_TYPE_NONE:
    case CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR:
      return CUDA_SUCCESS;
    case CU_MEM_HANDLE_TYPE_FABRIC:
      return CUDA_ERROR_NOT_SUPPORTED;
    default:
      return CUDA_ERROR_INVALID_VALUE;
  }
}

constexpr size_t kHostPage = 4096;

bool is_piece(uint64_t value) { return value != 0 && value % kPieceBytes == 0; }

}  // namespace

CUresult cuMemGetAllocationGranularity(size_t* granularity, const CUmemAllocationProp* properties,
                                       CUmemAllocationGranularity_flags option) {
  VRAM_SIM_ENTER();
  VRAM_SIM_TRY(require_initialized());
  if (granularity == nullptr || properties == nullptr ||
      (option != CU_MEM_ALLOC_GRANULARITY_MINIMUM &&
       option != CU_MEM_ALLOC_GRANULARITY_RECOMMENDED)) {
    return CUDA_ERROR_INVALID_VALUE;
  }
  VRAM_SIM_TRY(check_properties(*properties));
  *granularity = kPieceBytes;
  return CUDA_SUCCESS;
}

CUresult cuMemCreate(CUmemGenericAllocationHandle* handle, size_t bytes,
                     const CUmemAllocationProp* properties, unsigned long long flags) {
  VRAM_SIM_ENTER();
  VRAM_SIM_TRY(require_initialized());
  if (handle == nullptr || properties == nullptr || flags != 0 || !is_piece(bytes)) {
    return CUDA_ERROR_INVALID_VALUE;
  }
  VRAM_SIM_TRY(check_properties(*properties));
  VRAM_SIM_TRY(create_physical(bytes, *properties, handle));
  spend_bytes("cuMemCreate", bytes);
  return CUDA_SUCCESS;
}

CUresult cuMemRelease(CUmemGenericAllocationHandle handle) {
  VRAM_SIM_ENTER();
  VRAM_SIM_TRY(require_initialized());
  size_t given_back = 0;
  VRAM_SIM_TRY(release_physical(handle, &given_back));
  spend_bytes("cuMemRelease", given_back);
  return CUDA_SUCCESS;
}

CUresult cuMemRetainAllocationHandle(CUmemGenericAllocationHandle* handle, void* address) {
  VRAM_SIM_ENTER();
  VRAM_SIM_TRY(require_initialized());
  if (handle == nullptr) return CUDA_ERROR_INVALID_VALUE;
  return retain_physical(reinterpret_cast<CUdeviceptr>(address), handle);
}

CUresult cuMemGetAllocationPropertiesFromHandle(CUmemAllocationProp* properties,
                                                CUmemGenericAllocationHandle handle) {
  VRAM_SIM_ENTER();
  VRAM_SIM_TRY(require_initialized());
  if (properties == nullptr) return CUDA_ERROR_INVALID_VALUE;
  return properties_of(handle, properties);
}

CUresult cuMemExportToShareableHandle(void* shareable, CUmemGenericAllocationHandle handle,
                                      CUmemAllocationHandleType type, unsigned long long flags) {
  VRAM_SIM_ENTER();
  VRAM_SIM_TRY(require_initialized());
  if (shareable == nullptr || flags != 0) return CUDA_ERROR_INVALID_VALUE;
  if (type != CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR) return CUDA_ERROR_NOT_SUPPORTED;
  return export_physical(handle, static_cast<int*>(shareable));
}

CUresult cuMemImportFromShareableHandle(CUmemGenericAllocationHandle* handle, void* os_handle,
                                        CUmemAllocationHandleType type) {
  VRAM_SIM_ENTER();
  VRAM_SIM_TRY(require_initialized());
  if (handle == nullptr) return CUDA_ERROR_INVALID_VALUE;
  if (type != CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR) return CUDA_ERROR_NOT_SUPPORTED;
  return import_physical(static_cast<int>(reinterpret_cast<intptr_t>(os_handle)), handle);
}

CUresult cuMemGetHandleForAddressRange(void* handle, CUdeviceptr address, size_t bytes,
                                       CUmemRangeHandleType type, unsigned long long flags) {
  VRAM_SIM_ENTER();
  VRAM_SIM_TRY(require_initialized());
  const bool pages = bytes != 0 && bytes % kHostPage == 0 && address % kHostPage == 0;
  const bool flags_ok = flags <= CU_MEM_RANGE_FLAG_DMA_BUF_MAPPING_TYPE_PCIE;
  if (handle == nullptr || !pages || !flags_ok || type != CU_MEM_RANGE_HANDLE_TYPE_DMA_BUF_FD) {
    return CUDA_ERROR_INVALID_VALUE;
  }
  if (flags != 0) return CUDA_ERROR_NOT_SUPPORTED;
  return export_range(address, bytes, static_cast<int*>(handle));
}

CUresult cuMemAddressReserve(CUdeviceptr* out, size_t bytes, size_t alignment, CUdeviceptr address,
                             unsigned long long flags) {
  VRAM_SIM_ENTER();
  VRAM_SIM_TRY(require_initialized());
  if (out == nullptr || flags != 0 || !is_piece(bytes) ||
      (alignment != 0 && !std::has_single_bit(alignment))) {
    return CUDA_ERROR_INVALID_VALUE;
  }
  return reserve_addresses(bytes, alignment < kPieceBytes ? kPieceBytes : alignment, address, out);
}

CUresult cuMemAddressFree(CUdeviceptr base, size_t bytes) {
  VRAM_SIM_ENTER();
  VRAM_SIM_TRY(require_initialized());
  return free_addresses(base, bytes);
}

CUresult cuMemMap(CUdeviceptr at, size_t bytes, size_t offset, CUmemGenericAllocationHandle handle,
                  unsigned long long flags) {
  VRAM_SIM_ENTER();
  VRAM_SIM_TRY(require_initialized());
  if (flags != 0 || !is_piece(bytes) || at % kPieceBytes != 0 || offset % kPieceBytes != 0) {
    return CUDA_ERROR_INVALID_VALUE;
  }
  return map_physical(at, bytes, offset, handle);
}

CUresult cuMemUnmap(CUdeviceptr base, size_t bytes) {
  VRAM_SIM_ENTER();
  VRAM_SIM_TRY(require_initialized());
  if (!is_piece(bytes)) return CUDA_ERROR_INVALID_VALUE;
  VRAM_SIM_TRY(unmap_range(base, bytes));
  spend_bytes("cuMemUnmap", bytes);
  return CUDA_SUCCESS;
}

CUresult cuMemSetAccess(CUdeviceptr base, size_t bytes, const CUmemAccessDesc* access,
                        size_t count) {
  VRAM_SIM_ENTER();
  VRAM_SIM_TRY(require_initialized());
  if (access == nullptr || count == 0 || !is_piece(bytes)) return CUDA_ERROR_INVALID_VALUE;
  for (size_t i = 0; i < count; ++i) {
    VRAM_SIM_TRY(check_location(access[i].location));
    if (access[i].flags != CU_MEM_ACCESS_FLAGS_PROT_NONE &&
        access[i].flags != CU_MEM_ACCESS_FLAGS_PROT_READ &&
        access[i].flags != CU_MEM_ACCESS_FLAGS_PROT_READWRITE) {
      return CUDA_ERROR_INVALID_VALUE;
    }
  }
  for (size_t i = 0; i < count; ++i) VRAM_SIM_TRY(set_access(base, bytes, access[i]));
  spend_bytes("cuMemSetAccess", bytes);
  return CUDA_SUCCESS;
}

CUresult cuMemGetAccess(unsigned long long* flags, const CUmemLocation* location,
                        CUdeviceptr address) {
  VRAM_SIM_ENTER();
  VRAM_SIM_TRY(require_initialized());
  if (flags == nullptr || location == nullptr) return CUDA_ERROR_INVALID_VALUE;
  VRAM_SIM_TRY(check_location(*location));
  return access_of(address, *location, flags);
}
