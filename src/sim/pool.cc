#include "sim/pool.h"

#include <algorithm>
#include <memory>
#include <mutex>
#include <vector>

#include "sim/driver.h"
#include "sim/memory.h"
#include "sim/pool_life.h"
#include "sim/pool_share.h"
#include "sim/registry.h"
#include "sim/stream.h"
#include "sim/try.h"

namespace vram::sim {
namespace {

// Pools are never deleted: blocks may outlive their handle, and a stale handle is harmless.
struct Pools {
  std::mutex mutex;
  std::vector<Pool*> all;
  std::vector<Pool*> handles;  // those the program may still name
  Pool* defaults[kMaxCards] = {};
  Pool* current[kMaxCards] = {};
};

Pools& pools() {
  static Pools* const instance = new Pools;
  return *instance;
}

std::vector<Pool*> all_pools() {
  const std::lock_guard held(pools().mutex);
  return pools().all;
}

// Once for the process, before the first pool can hold anything.
void watch_synchronisations() {
  static std::once_flag once;
  std::call_once(once, [] {
    add_synchronised_hook([](Context& context) {
      for (Pool* const pool : all_pools()) {
        if (pool->device() == context.device) pool->synchronised();
      }
    });
  });
}

bool is_default(const Pool* pool) { return pools().defaults[pool->device()] == pool; }

}  // namespace

Pool& create_pool(int device, uint64_t max_bytes, CUmemAllocationHandleType handle_types) {
  watch_synchronisations();
  auto* const pool = new Pool(device, max_bytes, handle_types);
  const std::lock_guard held(pools().mutex);
  pools().all.push_back(pool);
  pools().handles.push_back(pool);
  return *pool;
}

CUresult destroy_pool(CUmemoryPool handle) {
  Pool* pool = nullptr;
  {
    const std::lock_guard held(pools().mutex);
    std::vector<Pool*>& handles = pools().handles;
    const auto found = std::find_if(handles.begin(), handles.end(),
                                    [&](Pool* other) { return handle_of(*other) == handle; });
    if (found == handles.end() || is_default(*found)) return CUDA_ERROR_INVALID_VALUE;
    pool = *found;
    handles.erase(found);
    Pool*& current = pools().current[pool->device()];
    if (current == pool) current = pools().defaults[pool->device()];
  }
  pool->retire();
  return CUDA_SUCCESS;
}

Pool& default_pool(int device) {
  {
    const std::lock_guard held(pools().mutex);
    if (pools().defaults[device] != nullptr) return *pools().defaults[device];
  }
  watch_synchronisations();
  const std::lock_guard held(pools().mutex);
  Pool*& pool = pools().defaults[device];
  if (pool == nullptr) {
    pool = new Pool(device, 0, CU_MEM_HANDLE_TYPE_NONE);
    pools().all.push_back(pool);
    pools().handles.push_back(pool);
  }
  return *pool;
}

Pool& current_pool(int device) {
  {
    const std::lock_guard held(pools().mutex);
    if (pools().current[device] != nullptr) return *pools().current[device];
  }
  return default_pool(device);
}

void set_current_pool(int device, Pool& pool) {
  const std::lock_guard held(pools().mutex);
  pools().current[device] = &pool;
}

CUresult find_pool(CUmemoryPool handle, Pool** out) {
  VRAM_SIM_TRY(require_initialized());
  const std::lock_guard held(pools().mutex);
  for (Pool* const pool : pools().handles) {
    if (handle_of(*pool) != handle) continue;
    *out = pool;
    return CUDA_SUCCESS;
  }
  return CUDA_ERROR_INVALID_VALUE;
}

int device_of(const Pool& pool) { return pool.device(); }

CUresult pool_allocate(Pool& pool, size_t bytes, uint64_t stream_id, CUdeviceptr* out) {
  CUdeviceptr base = 0;
  VRAM_SIM_TRY(pool.allocate(bytes, stream_id, &base));
  Allocation allocation;
  allocation.base = base;
  allocation.bytes = bytes;
  allocation.kind = MemoryKind::kPool;
  allocation.device = pool.device();
  if (!register_allocation(allocation)) {
    (void)pool.free(base, 0, 0);
    return CUDA_ERROR_UNKNOWN;
  }
  *out = base;
  return CUDA_SUCCESS;
}

CUresult pool_free(CUdeviceptr base, uint64_t stream_id, uint64_t number) {
  Allocation allocation;
  if (!take_allocation(base, MemoryKind::kPool, &allocation)) return free_imported_block(base);
  Pool* const pool = pool_of(base);
  const bool freed = pool != nullptr && pool->free(base, stream_id, number);
  return freed ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}

Pool* pool_of(CUdeviceptr base) {
  for (Pool* const pool : all_pools()) {
    if (pool->contains(base)) return pool;
  }
  return nullptr;
}

bool pool_has_memory(CUdeviceptr base, size_t bytes) {
  const Pool* const pool = pool_of(base);
  return pool != nullptr && pool->has_memory(base, bytes);
}

void drop_pool_memory(int device) {
  for (Pool* const pool : all_pools()) {
    if (pool->device() == device) pool->free_all();
  }
}

}  // namespace vram::sim
