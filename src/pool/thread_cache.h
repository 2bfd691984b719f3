#pragma once

// Blocks a thread has freed and will soon ask for again: found without the pool's lock.
//
// Model. A cache belongs to one thread and one pool. For each of a few streams it has a bin for
// each size class up to 16 MiB, last in, first out. For the pool's space a cached block is live. A
// full bin hands a chain of blocks on to the pool's shelf for that stream and class, where a thread
// that frees less than it allocates finds it; both are a few loads and stores for a whole chain.
//
// Threads: the owner, inside `lock`, and whoever empties the caches when memory is short, with it.

#include <cstdint>

#include "arena/node.h"
#include "arena/size_class.h"
#include "arena/space.h"
#include "pool/driver_calls.h"
#include "pool/owned_lock.h"

namespace vram::pool {

using arena::NodeId;

// Larger blocks are rare, and a few of them idle in a cache would be felt.
inline constexpr std::uint64_t kLargestCached = std::uint64_t{16} << 20;
inline constexpr std::uint32_t kCachedClasses = arena::class_of(kLargestCached) + 1;
inline constexpr std::uint32_t kUncached = kCachedClasses;  // what a block has for a class then

// What a request is rounded to: blocks that go through bins to the size of their class.
constexpr std::uint64_t block_bytes(std::uint64_t bytes) {
  if (bytes <= kLargestCached) return arena::class_bytes(arena::class_of(bytes));
  return (bytes + arena::kGranule - 1) / arena::kGranule * arena::kGranule;
}
// What a bin holds at most, and how many blocks move between it and a shelf at once: long enough to
// be cheap for each block, short enough that walking it stays far below a microsecond. A shelf is
// for blocks of which a full bin weighs little.
inline constexpr std::uint32_t kMostInBin = 32;
inline constexpr std::uint32_t kChain = 8;

struct Bin {
  NodeId head;
  std::uint32_t count;
};

struct StreamBins {
  CUstream stream;
  arena::StreamId id;  // 0: not in use
  bool used;           // since they were emptied: the bins may hold something
  Bin bins[kCachedClasses];
};

struct alignas(64) ThreadCache {
  static constexpr unsigned kStreams = 8;

  OwnedLock lock;
  std::uint32_t newest;  // index of the bins used last
  std::uint64_t bytes;   // in the bins
  std::uint8_t shard;    // where the thread's blocks come from
  // The owner's alone: how often it waited for that one's lock, and took a block elsewhere, since
  // something was done about it.
  std::uint32_t waits;
  std::uint32_t borrowed;
  // Not yet told to the pool; see Segments::tell().
  std::int64_t live_bytes;
  std::int64_t highest_live_bytes;
  std::int64_t live_blocks;
  std::uint64_t allocations;
  std::uint64_t largest_request;
  bool owned;  // by a living thread; under the pool's lock
  ThreadCache* next;
  StreamBins streams[kStreams];

  // Null: none yet for this stream.
  StreamBins* bins_of(CUstream stream) {
    StreamBins* bins = &streams[newest];
    if (bins->stream == stream && bins->id != 0) return bins;
    for (std::uint32_t i = 0; i < kStreams; ++i) {
      if (streams[i].id == 0 || streams[i].stream != stream) continue;
      newest = i;
      return &streams[i];
    }
    return nullptr;
  }
};

}  // namespace vram::pool
