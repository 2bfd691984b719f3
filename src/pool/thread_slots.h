#pragma once

// Which cache a thread has of each pool, and what happens when threads and pools end.
//
// Threads: all functions may be called by any.

#include <cstdint>

#include "pool/thread_cache.h"

namespace vram::pool {

class Segments;

inline constexpr std::uint32_t kMostPools = 128;  // at once in a process

// Where a pool's caches are found.
struct PoolNumber {
  std::uint32_t index;
  std::uint64_t serial;  // 0: none; never used twice
};

// A number for a new pool; serial 0: there are too many pools, which then go without caches.
PoolNumber enter_pool(Segments* pool);
// The pool is about to go. When this returns, no ending thread touches it any more.
void leave_pool(const PoolNumber& number);

// The calling thread's cache of this pool; null: none yet.
ThreadCache* cache_in_slot(const PoolNumber& number);
// False: no memory, or the thread is ending.
[[nodiscard]] bool set_cache_in_slot(const PoolNumber& number, ThreadCache* cache);

}  // namespace vram::pool
