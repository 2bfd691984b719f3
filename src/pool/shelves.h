#pragma once

// Chains of cached blocks on their way from one thread to another, by stream and size class.
//
// Model. A chain is linked by `next`; the chains of a shelf are linked by the `previous` of their
// heads. For the pool's space a shelved block is live.
//
// Threads: any; each shelf has its own lock.

#include "arena/growing_array.h"
#include "pool/thread_cache.h"

namespace vram::pool {

class Shelves {
 public:
  [[nodiscard]] bool open() { return streams_.reserve(arena::kMaxStreams); }

  // False: the shelf is full.
  [[nodiscard]] bool put(arena::NodeStore& nodes, arena::StreamId stream, std::uint32_t size_class,
                         NodeId chain) {
    Shelf& shelf = streams_[stream].shelves[size_class];
    const Locked hold(shelf.lock);
    if (shelf.count >= kMostChains) return false;
    nodes[chain].previous = shelf.chains;
    shelf.chains = chain;
    ++shelf.count;
    return true;
  }

  // 0: nothing there.
  [[nodiscard]] NodeId get(arena::NodeStore& nodes, arena::StreamId stream,
                           std::uint32_t size_class) {
    Shelf& shelf = streams_[stream].shelves[size_class];
    if (shelf.seemingly_empty()) return 0;
    const Locked hold(shelf.lock);
    const NodeId chain = shelf.chains;
    if (chain == 0) return 0;
    shelf.chains = nodes[chain].previous;
    --shelf.count;
    return chain;
  }

 private:
  // As much as four threads' bins.
  static constexpr std::uint32_t kMostChains = 16;

  struct alignas(64) Shelf {
    SpinLock lock;
    std::atomic<std::uint32_t> count;
    NodeId chains;
    [[nodiscard]] bool seemingly_empty() const {
      return count.load(std::memory_order_relaxed) == 0;
    }
  };
  struct OfStream {
    Shelf shelves[kCachedClasses];
  };

  arena::GrowingArray<OfStream> streams_;
};

}  // namespace vram::pool
