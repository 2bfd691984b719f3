// Entry points: memory pools and their attributes. Sharing pools with other processes is in
// pool_share_api.cc, allocating from them in async_memory_api.cc.
#include <cuda.h>

#include "sim/context.h"
#include "sim/driver.h"
#include "sim/entry.h"
#include "sim/pool_life.h"
#include "sim/pool_share.h"
#include "sim/stream.h"
#include "sim/try.h"

using namespace vram::sim;

namespace {

CUresult check_location(const CUmemLocation* location, CUmemAllocationType type) {
  if (location == nullptr) return CUDA_ERROR_INVALID_VALUE;
  if (type != CU_MEM_ALLOCATION_TYPE_PINNED) return CUDA_ERROR_NOT_SUPPORTED;
  // Pools in host memory are not simulated.
  if (location->type != CU_MEM_LOCATION_TYPE_DEVICE) return CUDA_ERROR_NOT_SUPPORTED;
  return require_device(location->id);
}

CUresult set_current(int device, CUmemoryPool handle) {
  Pool* pool = nullptr;
  VRAM_SIM_TRY(find_pool(handle, &pool));
  if (pool->device() != device) return CUDA_ERROR_INVALID_VALUE;
  set_current_pool(device, *pool);
  return CUDA_SUCCESS;
}

// Where the value of one of the int attributes is kept, null for the others.
int* reuse_flag(Pool& pool, CUmemPool_attribute attribute) {
  switch (attribute) {
    case CU_MEMPOOL_ATTR_REUSE_FOLLOW_EVENT_DEPENDENCIES:
      return &pool.reuse_flags[0];
    case CU_MEMPOOL_ATTR_REUSE_ALLOW_OPPORTUNISTIC:
      return &pool.reuse_flags[1];
    case CU_MEMPOOL_ATTR_REUSE_ALLOW_INTERNAL_DEPENDENCIES:
      return &pool.reuse_flags[2];
    default:
      return nullptr;
  }
}

CUresult get_bytes(const Pool& pool, CUmemPool_attribute attribute, cuuint64_t* out) {
  const Pool::Usage usage = pool.usage();
  switch (attribute) {
    case CU_MEMPOOL_ATTR_RELEASE_THRESHOLD:
      *out = pool.threshold();
      return CUDA_SUCCESS;
    case CU_MEMPOOL_ATTR_RESERVED_MEM_CURRENT:
      *out = usage.reserved;
      return CUDA_SUCCESS;
    case CU_MEMPOOL_ATTR_RESERVED_MEM_HIGH:
      *out = usage.reserved_high;
      return CUDA_SUCCESS;
    case CU_MEMPOOL_ATTR_USED_MEM_CURRENT:
      *out = usage.used;
      return CUDA_SUCCESS;
    case CU_MEMPOOL_ATTR_USED_MEM_HIGH:
      *out = usage.used_high;
      return CUDA_SUCCESS;
    default:
      return CUDA_ERROR_INVALID_VALUE;
  }
}

CUresult set_bytes(Pool& pool, CUmemPool_attribute attribute, cuuint64_t value) {
  if (attribute == CU_MEMPOOL_ATTR_RELEASE_THRESHOLD) {
    pool.set_threshold(value);
    return CUDA_SUCCESS;
  }
  // High-water marks can only be reset.
  if (value != 0) return CUDA_ERROR_INVALID_VALUE;
  if (attribute == CU_MEMPOOL_ATTR_RESERVED_MEM_HIGH) {
    pool.reset_reserved_high();
  } else if (attribute == CU_MEMPOOL_ATTR_USED_MEM_HIGH) {
    pool.reset_used_high();
  } else {
    return CUDA_ERROR_INVALID_VALUE;
  }
  return CUDA_SUCCESS;
}

}  // namespace

CUresult cuMemPoolCreate(CUmemoryPool* out, const CUmemPoolProps* properties) {
  VRAM_SIM_ENTER();
  VRAM_SIM_TRY(require_initialized());
  VRAM_SIM_TRY(check_capture_allows_unsafe_call());
  if (out == nullptr || properties == nullptr) return CUDA_ERROR_INVALID_VALUE;
  VRAM_SIM_TRY(check_location(&properties->location, properties->allocType));
  if (properties->handleTypes != CU_MEM_HANDLE_TYPE_NONE &&
      properties->handleTypes != CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR) {
    return CUDA_ERROR_NOT_SUPPORTED;
  }
  *out =
      handle_of(create_pool(properties->location.id, properties->maxSize, properties->handleTypes));
  return CUDA_SUCCESS;
}

CUresult cuMemPoolDestroy(CUmemoryPool handle) {
  VRAM_SIM_ENTER();
  VRAM_SIM_TRY(require_initialized());
  VRAM_SIM_TRY(check_capture_allows_unsafe_call());
  if (forget_imported_pool(handle) == CUDA_SUCCESS) return CUDA_SUCCESS;
  return destroy_pool(handle);
}

CUresult cuMemPoolTrimTo(CUmemoryPool handle, size_t keep) {
  VRAM_SIM_ENTER();
  Pool* pool = nullptr;
  VRAM_SIM_TRY(find_pool(handle, &pool));
  VRAM_SIM_TRY(check_capture_allows_unsafe_call());
  pool->trim(keep);
  return CUDA_SUCCESS;
}

CUresult cuMemPoolGetAttribute(CUmemoryPool handle, CUmemPool_attribute attribute, void* value) {
  VRAM_SIM_ENTER();
  Pool* pool = nullptr;
  VRAM_SIM_TRY(find_pool(handle, &pool));
  VRAM_SIM_TRY(check_capture_allows_unsafe_call());
  if (value == nullptr) return CUDA_ERROR_INVALID_VALUE;
  if (const int* const flag = reuse_flag(*pool, attribute)) {
    *static_cast<int*>(value) = *flag;
    return CUDA_SUCCESS;
  }
  return get_bytes(*pool, attribute, static_cast<cuuint64_t*>(value));
}

CUresult cuMemPoolSetAttribute(CUmemoryPool handle, CUmemPool_attribute attribute, void* value) {
  VRAM_SIM_ENTER();
  Pool* pool = nullptr;
  VRAM_SIM_TRY(find_pool(handle, &pool));
  VRAM_SIM_TRY(check_capture_allows_unsafe_call());
  if (value == nullptr) return CUDA_ERROR_INVALID_VALUE;
  if (int* const flag = reuse_flag(*pool, attribute)) {
    *flag = *static_cast<const int*>(value);
    return CUDA_SUCCESS;
  }
  return set_bytes(*pool, attribute, *static_cast<const cuuint64_t*>(value));
}

// Every card can reach every other card's memory; the program's wishes change nothing.
CUresult cuMemPoolSetAccess(CUmemoryPool handle, const CUmemAccessDesc* access, size_t count) {
  VRAM_SIM_ENTER();
  Pool* pool = nullptr;
  VRAM_SIM_TRY(find_pool(handle, &pool));
  if (access == nullptr && count != 0) return CUDA_ERROR_INVALID_VALUE;
  for (size_t i = 0; i < count; ++i) {
    VRAM_SIM_TRY(check_location(&access[i].location, CU_MEM_ALLOCATION_TYPE_PINNED));
  }
  return CUDA_SUCCESS;
}

CUresult cuMemPoolGetAccess(CUmemAccess_flags* flags, CUmemoryPool handle,
                            CUmemLocation* location) {
  VRAM_SIM_ENTER();
  Pool* pool = nullptr;
  VRAM_SIM_TRY(find_pool(handle, &pool));
  if (flags == nullptr) return CUDA_ERROR_INVALID_VALUE;
  VRAM_SIM_TRY(check_location(location, CU_MEM_ALLOCATION_TYPE_PINNED));
  *flags = CU_MEM_ACCESS_FLAGS_PROT_READWRITE;
  return CUDA_SUCCESS;
}

CUresult cuDeviceGetDefaultMemPool(CUmemoryPool* out, CUdevice device) {
  VRAM_SIM_ENTER();
  VRAM_SIM_TRY(require_device(device));
  if (out == nullptr) return CUDA_ERROR_INVALID_VALUE;
  *out = handle_of(default_pool(device));
  return CUDA_SUCCESS;
}

CUresult cuDeviceGetMemPool(CUmemoryPool* out, CUdevice device) {
  VRAM_SIM_ENTER();
  VRAM_SIM_TRY(require_device(device));
  if (out == nullptr) return CUDA_ERROR_INVALID_VALUE;
  *out = handle_of(current_pool(device));
  return CUDA_SUCCESS;
}

CUresult cuDeviceSetMemPool(CUdevice device, CUmemoryPool handle) {
  VRAM_SIM_ENTER();
  VRAM_SIM_TRY(require_device(device));
  return set_current(device, handle);
}

CUresult cuMemGetDefaultMemPool(CUmemoryPool* out, CUmemLocation* location,
                                CUmemAllocationType type) {
  VRAM_SIM_ENTER();
  VRAM_SIM_TRY(require_initialized());
  if (out == nullptr) return CUDA_ERROR_INVALID_VALUE;
  VRAM_SIM_TRY(check_location(location, type));
  *out = handle_of(default_pool(location->id));
  return CUDA_SUCCESS;
}

CUresult cuMemGetMemPool(CUmemoryPool* out, CUmemLocation* location, CUmemAllocationType type) {
  VRAM_SIM_ENTER();
  VRAM_SIM_TRY(require_initialized());
  if (out == nullptr) return CUDA_ERROR_INVALID_VALUE;
  VRAM_SIM_TRY(check_location(location, type));
  *out = handle_of(current_pool(location->id));
  return CUDA_SUCCESS;
}

CUresult cuMemSetMemPool(CUmemLocation* location, CUmemAllocationType type, CUmemoryPool pool) {
  VRAM_SIM_ENTER();
  VRAM_SIM_TRY(require_initialized());
  VRAM_SIM_TRY(check_location(location, type));
  return set_current(location->id, pool);
}
