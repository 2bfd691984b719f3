// Making and ending pools: what the entry points of the pool family need beyond pool.h.
#pragma once

#include <cuda.h>

#include <cstdint>

#include "sim/pool.h"
#include "sim/pool_core.h"

namespace vram::sim {

[[nodiscard]] inline CUmemoryPool handle_of(Pool& pool) {
  return reinterpret_cast<CUmemoryPool>(&pool);
}

[[nodiscard]] Pool& create_pool(int device, uint64_t max_bytes,
                                CUmemAllocationHandleType handle_types);
// CUDA_ERROR_INVALID_VALUE for no pool and for a default pool.
[[nodiscard]] CUresult destroy_pool(CUmemoryPool handle);
[[nodiscard]] Pool& default_pool(int device);
void set_current_pool(int device, Pool& pool);

// The pool of a live block, null when there is none.
[[nodiscard]] Pool* pool_of(CUdeviceptr base);

// The process's last context on the device is gone, and with it everything in its pools.
void drop_pool_memory(int device);

}  // namespace vram::sim
