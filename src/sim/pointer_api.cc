// Entry points: what a pointer is.
#include <cuda.h>

#include "sim/context.h"
#include "sim/driver.h"
#include "sim/entry.h"
#include "sim/memory.h"
#include "sim/pool_life.h"
#include "sim/try.h"
#include "sim/virtual_memory.h"

using namespace vram::sim;

namespace {

bool is_on_host(MemoryKind kind) {
  return kind == MemoryKind::kHost || kind == MemoryKind::kRegistered;
}

CUcontext context_handle(const Allocation& allocation) {
  return allocation.context == nullptr ? nullptr : handle_of(*allocation.context);
}

unsigned allowed_handle_types(const Allocation& allocation) {
  CUmemAllocationHandleType types = CU_MEM_HANDLE_TYPE_NONE;
  if (allocation.kind == MemoryKind::kVirtual) {
    (void)handle_types_at(allocation.base, &types);
  } else if (allocation.kind == MemoryKind::kPool) {
    if (const Pool* const pool = pool_of(allocation.base)) types = pool->handle_types();
  }
  return types;
}

CUmemoryPool pool_handle(const Allocation& allocation) {
  if (allocation.kind != MemoryKind::kPool) return nullptr;
  Pool* const pool = pool_of(allocation.base);
  return pool == nullptr ? nullptr : handle_of(*pool);
}

template <typename T>
CUresult give(void* out, T value) {
  *static_cast<T*>(out) = value;
  return CUDA_SUCCESS;
}

// The program's range: all of a reservation, for mapped memory.
CUresult range_of(const Allocation& allocation, CUdeviceptr* base, size_t* bytes) {
  *base = allocation.base;
  *bytes = allocation.bytes;
  if (allocation.kind == MemoryKind::kVirtual) {
    (void)find_reservation(allocation.base, base, bytes);
  }
  return CUDA_SUCCESS;
}

CUresult attribute_of(void* out, CUpointer_attribute attribute, CUdeviceptr address,
                      const Allocation& allocation) {
  CUdeviceptr range_base = 0;
  size_t range_bytes = 0;
  switch (attribute) {
    case CU_POINTER_ATTRIBUTE_CONTEXT:
      return give(out, context_handle(allocation));
    case CU_POINTER_ATTRIBUTE_MEMORY_TYPE:
      return give(out, is_on_host(allocation.kind) ? unsigned{CU_MEMORYTYPE_HOST}
                                                   : unsigned{CU_MEMORYTYPE_DEVICE});
    case CU_POINTER_ATTRIBUTE_DEVICE_POINTER:
      return give(out, address);
    case CU_POINTER_ATTRIBUTE_HOST_POINTER:
      if (is_device_address(address)) return CUDA_ERROR_INVALID_VALUE;
      return give(out, reinterpret_cast<void*>(address));
    case CU_POINTER_ATTRIBUTE_SYNC_MEMOPS:
      return give(out, 0u);
    case CU_POINTER_ATTRIBUTE_BUFFER_ID:
    case CU_POINTER_ATTRIBUTE_MEMORY_BLOCK_ID:
      return give(out, static_cast<unsigned long long>(allocation.buffer_id));
    case CU_POINTER_ATTRIBUTE_IS_MANAGED:
      return give(out, allocation.kind == MemoryKind::kManaged ? 1u : 0u);
    case CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL:
      return give(out, allocation.device);
    case CU_POINTER_ATTRIBUTE_IS_LEGACY_CUDA_IPC_CAPABLE:
      return give(out, allocation.kind == MemoryKind::kDevice ? 1u : 0u);
    case CU_POINTER_ATTRIBUTE_RANGE_START_ADDR:
      VRAM_SIM_TRY(range_of(allocation, &range_base, &range_bytes));
      return give(out, range_base);
    case CU_POINTER_ATTRIBUTE_RANGE_SIZE:
      VRAM_SIM_TRY(range_of(allocation, &range_base, &range_bytes));
      return give(out, range_bytes);
    case CU_POINTER_ATTRIBUTE_MAPPED:
      return give(out, 1u);
    case CU_POINTER_ATTRIBUTE_ALLOWED_HANDLE_TYPES:
      return give(out, static_cast<unsigned long long>(allowed_handle_types(allocation)));
    case CU_POINTER_ATTRIBUTE_IS_GPU_DIRECT_RDMA_CAPABLE:
    case CU_POINTER_ATTRIBUTE_IS_HW_DECOMPRESS_CAPABLE:
      return give(out, 0u);
    case CU_POINTER_ATTRIBUTE_ACCESS_FLAGS:
      return give(out, unsigned{CU_POINTER_ATTRIBUTE_ACCESS_FLAG_READWRITE});
    case CU_POINTER_ATTRIBUTE_MEMPOOL_HANDLE:
      return give(out, pool_handle(allocation));
    case CU_POINTER_ATTRIBUTE_MAPPING_SIZE:
      return give(out, allocation.bytes);
    case CU_POINTER_ATTRIBUTE_MAPPING_BASE_ADDR:
      return give(out, allocation.base);
    default:
      return CUDA_ERROR_INVALID_VALUE;
  }
}

// A reserved address that nothing is mapped at.
CUresult reserved_attribute(void* out, CUpointer_attribute attribute, CUdeviceptr address) {
  CUdeviceptr base = 0;
  size_t bytes = 0;
  if (!find_reservation(address, &base, &bytes)) return CUDA_ERROR_INVALID_VALUE;
  switch (attribute) {
    case CU_POINTER_ATTRIBUTE_RANGE_START_ADDR:
      return give(out, base);
    case CU_POINTER_ATTRIBUTE_RANGE_SIZE:
      return give(out, bytes);
    case CU_POINTER_ATTRIBUTE_MAPPED:
      return give(out, 0u);
    default:
      return CUDA_ERROR_INVALID_VALUE;
  }
}

CUresult attribute_at(void* out, CUpointer_attribute attribute, CUdeviceptr address) {
  Allocation allocation;
  if (!find_allocation(address, &allocation)) return reserved_attribute(out, attribute, address);
  return attribute_of(out, attribute, address, allocation);
}

size_t bytes_of(CUpointer_attribute attribute) {
  switch (attribute) {
    case CU_POINTER_ATTRIBUTE_CONTEXT:
    case CU_POINTER_ATTRIBUTE_DEVICE_POINTER:
    case CU_POINTER_ATTRIBUTE_HOST_POINTER:
    case CU_POINTER_ATTRIBUTE_BUFFER_ID:
    case CU_POINTER_ATTRIBUTE_RANGE_START_ADDR:
    case CU_POINTER_ATTRIBUTE_RANGE_SIZE:
    case CU_POINTER_ATTRIBUTE_ALLOWED_HANDLE_TYPES:
    case CU_POINTER_ATTRIBUTE_MEMPOOL_HANDLE:
    case CU_POINTER_ATTRIBUTE_MAPPING_SIZE:
    case CU_POINTER_ATTRIBUTE_MAPPING_BASE_ADDR:
    case CU_POINTER_ATTRIBUTE_MEMORY_BLOCK_ID:
      return 8;
    default:
      return 4;
  }
}

}  // namespace

CUresult cuPointerGetAttribute(void* out, CUpointer_attribute attribute, CUdeviceptr address) {
  VRAM_SIM_ENTER();
  VRAM_SIM_TRY(require_initialized());
  if (out == nullptr) return CUDA_ERROR_INVALID_VALUE;
  return attribute_at(out, attribute, address);
}

// Unlike the single query this one succeeds for any pointer, with zeros for what is unknown.
CUresult cuPointerGetAttributes(unsigned int count, CUpointer_attribute* attributes, void** out,
                                CUdeviceptr address) {
  VRAM_SIM_ENTER();
  VRAM_SIM_TRY(require_initialized());
  if (count == 0 || attributes == nullptr || out == nullptr) return CUDA_ERROR_INVALID_VALUE;
  for (unsigned i = 0; i < count; ++i) {
    if (attribute_at(out[i], attributes[i], address) == CUDA_SUCCESS) continue;
    auto* const bytes = static_cast<unsigned char*>(out[i]);
    for (size_t byte = 0; byte < bytes_of(attributes[i]); ++byte) bytes[byte] = 0;
    if (attributes[i] == CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL) {
      give(out[i], int{CU_DEVICE_INVALID});
    }
  }
  return CUDA_SUCCESS;
}

CUresult cuPointerSetAttribute(const void* value, CUpointer_attribute attribute,
                               CUdeviceptr address) {
  VRAM_SIM_ENTER();
  VRAM_SIM_TRY(require_initialized());
  Allocation allocation;
  if (value == nullptr || attribute != CU_POINTER_ATTRIBUTE_SYNC_MEMOPS ||
      !find_allocation(address, &allocation)) {
    return CUDA_ERROR_INVALID_VALUE;
  }
  return CUDA_SUCCESS;  // synchronous calls of the simulator always are
}
