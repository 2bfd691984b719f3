#pragma once

// vram's own pool of device memory: addresses reserved once, pages backed and unbacked as blocks
// come and go.
//
// Model. Zones of addresses for blocks of different sizes, on pages of different sizes. Blocks come
// from, in this order: the thread's cache, a shelf, a free stretch, a place across stretches whose
// missing pages are backed. Pages come from, in this order: spare ones; the driver, up to the most
// that was live and a small part of it; idle ones inside free stretches anywhere; the driver again.
// So what is held is little more than what live blocks touched at their highest, and no order of
// sizes makes it grow much further.
//
// Streams: see memory_pool.h and streams.h.
//
// Threads. What one lock protects is a shard: the spaces of its own addresses. All threads use the
// first one until they wait for each other at it; then they move apart, each to a shard with fewer
// threads, and come back when the program rests. A block goes back to the shard it came from.
// Larger blocks are rarer, and all in the first.
//
// Locks, outer to inner: growth_ (over driver calls), lock_ (streams, uses, the list of caches), a
// shard's, one of the table's, a cache's or a shelf's. The fast path takes a cache's only.
//
// Limits. reserved() never exceeds the limit. A request that fails has tried everything: caches
// emptied, tickets waited for, every idle page taken.
//
// Nothing here needs libstdc++: it also serves unmodified programs from inside the interposer.
// free() refuses what is not a live block.

#include <pthread.h>

#include "pool/block_table.h"
#include "pool/pages.h"
#include "pool/shelves.h"
#include "pool/streams.h"
#include "pool/thread_slots.h"

namespace vram::pool {

struct SegmentsOptions {
  CUdevice device = 0;
  CUcontext context = nullptr;
  std::uint64_t limit = kUnlimited;  // bytes
  Grant grant;
  std::uint8_t most_shards = 0;  // 0: one for each processor, at most 16
  std::uint32_t patience = 64;   // how often a thread waits at a shard before it moves apart
};

struct SegmentsInfo {
  std::uint64_t limit;
  std::uint64_t in_use;       // live blocks, as rounded
  std::uint64_t peak_in_use;  // exact with one thread; with more up to 32 MiB a thread off
  std::uint64_t reserved;
  std::uint64_t peak_reserved;
  std::uint64_t cached;  // in caches, on shelves, and freed blocks that are still used
  std::uint64_t free;    // backed and in no block
  std::uint64_t largest_free;
  std::uint64_t live_blocks;
  std::uint64_t allocations;
  std::uint64_t failures;
  std::uint64_t largest_request;
  std::uint64_t pages_backed;  // ever: what the driver was asked to map
  std::uint32_t shards;        // that threads use
};

class Segments {
 public:
  Segments() = default;
  ~Segments() { close(); }
  Segments(const Segments&) = delete;
  Segments& operator=(const Segments&) = delete;

  // Once. The table outlives the pool.
  [[nodiscard]] CUresult open(const DriverCalls& driver, const SegmentsOptions& options);
  // All work on the pool's memory is done, and no call is under way.
  void close();

  // CUDA_ERROR_OUT_OF_MEMORY, or what the driver answered. 0 bytes are CUDA_ERROR_INVALID_VALUE.
  [[nodiscard]] CUresult allocate(CUdeviceptr* address, std::uint64_t bytes, CUstream stream);
  // False: no live block begins there; nothing was done.
  [[nodiscard]] bool free(CUdeviceptr address, CUstream stream);
  [[nodiscard]] bool record_use(CUdeviceptr address, CUstream stream);
  // Bytes of the live block that begins at the address, as rounded; 0: none.
  [[nodiscard]] std::uint64_t bytes_at(CUdeviceptr address);
  // The live block that an address lies in, with the bytes it was asked for. False: in none. As
  // long as it takes to walk a shard's blocks, unless it is the block's first address.
  struct BlockAsked {
    CUdeviceptr start;
    std::uint64_t bytes;
    std::uint32_t number;  // no other block of the pool has it, nor one that lies here later
  };
  [[nodiscard]] bool block_around(CUdeviceptr address, BlockAsked* block);
  // Whether the address lies in the pool's reservations, block or not.
  [[nodiscard]] bool contains(CUdeviceptr address) const;

  // To be called before a stream is destroyed.
  void forget_stream(CUstream stream);
  // Around a capture of the stream into a graph. What is allocated in between is the graph's, which
  // may write it at every launch: whoever frees it, and when, it is not handed out again outside of
  // this capture before release_capture() says that the graph is gone and its launches are done.
  // Begin before the stream's capture begins, end after it has ended. False: too many streams and
  // captures.
  [[nodiscard]] bool begin_capture(CUstream stream, StreamId* capture);
  // False: no such capture, or not in this order; nothing was done.
  [[nodiscard]] bool end_capture(StreamId capture);
  [[nodiscard]] bool release_capture(StreamId capture);
  // Opens the pool's memory, what there is and what will come, to another card.
  [[nodiscard]] CUresult allow(CUdevice other);

  [[nodiscard]] std::uint64_t reserved() const { return holding_.bytes(); }
  [[nodiscard]] CUcontext context() const { return context_; }
  // The pool's context was destroyed, and all work with it: what is left can be closed without it.
  void context_gone();

  // A caller who waits for a stream, or for all, by himself makes marks before, and tells when the
  // wait is over: what was freed there before the mark is idle then, without a ticket. Of very many
  // streams only the first are marked.
  struct Marks {
    static constexpr unsigned kMost = 64;
    unsigned count;
    struct {
      StreamId stream;
      std::uint64_t ticket;
    } of[kMost];
  };
  [[nodiscard]] Marks mark(CUstream stream);
  [[nodiscard]] Marks mark_all();
  void synchronized(const Marks& marks);

  // Gives idle memory back until at most `keep` bytes are reserved; waits for tickets, at most
  // about 100 ms. Returns the bytes given back.
  std::uint64_t trim(std::uint64_t keep);
  // As trim(), without waiting: what work still uses stays.
  std::uint64_t give_back_idle(std::uint64_t keep);
  // Gives back what has been free since before the last call of decay(), and is idle.
  std::uint64_t decay();
  void set_limit(std::uint64_t bytes);

  [[nodiscard]] SegmentsInfo info();
  void reset_peaks();

  // A thread has ended: its cache is emptied and may serve another.
  void retire(ThreadCache* cache);

 private:
  // Blocks of a range of sizes lie in a zone: apart, since a small block that stays pins the page
  // it was cut from. Each shard has a part of each of the first zones' addresses; of the others,
  // the first shard has all.
  static constexpr std::uint8_t kZones = 4;
  static constexpr std::uint8_t kSharedOut = 2;
  static constexpr std::uint8_t kMostShards = 16;
  struct alignas(64) Shard {
    SpinLock lock;
    arena::NodeSupply nodes;
    arena::Space spaces[kZones];
    std::uint32_t threads = 0;  // that take their blocks here; under the pool's lock
    [[nodiscard]] static std::uint8_t zones(std::uint8_t shard) {
      return shard == 0 ? kZones : kSharedOut;
    }
  };
  struct Counters {
    std::atomic<std::int64_t> live_bytes{0};
    std::atomic<std::int64_t> peak_live_bytes{0};
    std::atomic<std::int64_t> live_blocks{0};
    std::atomic<std::uint64_t> allocations{0};
    std::atomic<std::uint64_t> failures{0};
    std::atomic<std::uint64_t> largest_request{0};
    std::atomic<std::uint64_t> pages_backed{0};
  };
  // How tightly the pool keeps to what is live; with the growth lock.
  struct Pace {
    unsigned slack_divisor = kTightest;
    std::uint64_t peak_live = 0;    // since the program last rested
    std::uint64_t moved_bytes = 0;  // out of caches and of pages, since it was last loosened
    std::uint64_t waited_us = 0;    // for tightness, ever
    std::uint64_t at_decay = 0;     // allocations made by the last decay()
  };
  // What may be held above the most that was live: this part of it.
  static constexpr unsigned kTightest = 192;
  static constexpr unsigned kLoosest = 3;
  struct Use {
    NodeId block;
    StreamId stream;
    std::uint64_t ticket;  // 0: not freed yet
  };
  enum class Gather { kWhenSlackIsUsed, kAlways };
  struct Wanted {
    std::uint64_t asked;
    std::uint64_t bytes;  // rounded
    std::uint32_t size_class;
    CUstream stream;
    StreamId id;
    std::uint8_t zone;
    std::uint8_t shard;
    ThreadCache* cache;  // the calling thread's; may be null
  };

  [[nodiscard]] static std::uint8_t zone_of(std::uint64_t bytes);
  [[nodiscard]] CUresult open_zones(CUdevice device, std::uint64_t card);
  [[nodiscard]] bool open_shard(std::uint8_t shard);
  [[nodiscard]] std::uint8_t shards() const { return shards_open_.load(std::memory_order_acquire); }
  // Calls visit(shard, zone, space) for every space, with its shard's lock.
  template <typename Visit>
  void for_each_space(Visit visit) {
    for (std::uint8_t s = 0; s < shards(); ++s) {
      const Locked hold(shards_[s].lock);
      for (std::uint8_t z = 0; z < Shard::zones(s); ++z) visit(shards_[s].spaces[z]);
    }
  }
  void move_apart(ThreadCache& cache);
  void come_together();
  void even_out(const Wanted& wanted);
  [[nodiscard]] bool is_poor(std::uint8_t shard, std::uint8_t zone);
  [[nodiscard]] ThreadCache* cache_of_thread();
  [[nodiscard]] ThreadCache* first_cache() const { return caches_.load(std::memory_order_acquire); }
  [[nodiscard]] ThreadCache* make_cache();
  [[nodiscard]] StreamBins* bins_of(ThreadCache& cache, CUstream stream);
  [[nodiscard]] NodeId find_cached(ThreadCache& cache, StreamBins& bins, std::uint32_t size_class);
  [[nodiscard]] NodeId cut_chain(Bin& bin);
  [[nodiscard]] bool keep(ThreadCache& cache, StreamBins& bins, NodeId block, NodeId* left_over);
  void hand_out(ThreadCache& cache, arena::Node& node, std::uint64_t asked);
  void tell(ThreadCache& cache);
  void tell_all();
  void count(std::int64_t bytes, std::int64_t blocks, std::int64_t highest);

  [[nodiscard]] CUresult allocate_centrally(CUdeviceptr* address, const Wanted& wanted);
  [[nodiscard]] NodeId take(const Wanted& wanted);
  [[nodiscard]] NodeId take_from_any(const Wanted& wanted);
  [[nodiscard]] NodeId take_from(Shard& shard, const Wanted& wanted);
  [[nodiscard]] CUresult grow(NodeId* block, const Wanted& wanted);
  [[nodiscard]] CUresult try_to_grow(NodeId* block, const Wanted& wanted);
  [[nodiscard]] bool take_from_any_zone(NodeId* block, const Wanted& wanted);
  [[nodiscard]] CUresult grow_anywhere(NodeId* block, const Wanted& wanted);
  [[nodiscard]] CUresult grow_in(Shard& shard, std::uint8_t zone, NodeId* block,
                                 const Wanted& wanted, Gather gather);
  [[nodiscard]] CUresult back(const Shard& shard, std::uint8_t zone, NodeId first,
                              std::uint64_t missing, Gather gather);
  void set_pace(std::uint64_t more);
  void set_cache_sizes();
  [[nodiscard]] bool beyond_slack(std::uint64_t more) const;
  void take_idle_for(std::uint8_t zone, std::uint64_t count, Gather gather);
  std::uint64_t take_idle_pages(std::uint8_t zone, std::uint64_t count, std::uint64_t freed_by);
  std::uint64_t take_idle_pages_of(Shard& shard, std::uint8_t zone, std::uint64_t count,
                                   std::uint64_t freed_by);
  std::uint64_t let_go(std::uint64_t keep, std::uint64_t wait_us);
  std::uint64_t give_back(std::uint64_t keep, std::uint64_t freed_by);
  [[nodiscard]] bool list(NodeId block);

  [[nodiscard]] bool free_without_cache(CUdeviceptr address, CUstream stream);
  void free_centrally(NodeId block, CUstream stream);
  void free_used(NodeId block, StreamId stream);
  void give(NodeId block, StreamId stream);
  void give_to(Shard& shard, NodeId block, StreamId stream);
  void give_chain(NodeId chain, StreamId stream);
  void leave_bins(CUstream stream);
  void settle_uses();
  [[nodiscard]] std::uint64_t cached_bytes();
  void empty_caches();
  void empty(ThreadCache& cache);
  [[nodiscard]] NodeId take_all(StreamBins& bins);
  void promote();
  bool issue_tickets();
  void wait_for_tickets(std::uint64_t most_us);
  void wait_for_tightness();
  [[nodiscard]] CUdeviceptr address_of(const arena::Node& node) const {
    return hot_.base[node.space] + node.start;
  }

  // What every call reads and hardly any writes: on lines that no other thread's writes take away.
  struct alignas(64) Hot {
    PoolNumber number{};
    CUdeviceptr base[kZones] = {};
    std::atomic<std::uint64_t> bin_bytes{0};      // what a bin of a cache may always hold
    std::atomic<std::uint64_t> cache_bytes{0};    // what a cache may hold beyond that
    std::atomic<std::uint32_t> classes_above{0};  // see find_cached()
  };

  Hot hot_;
  DriverCalls driver_{};
  CUcontext context_ = nullptr;
  std::uint64_t opened_us_ = 0;
  bool open_ = false;
  pthread_mutex_t growth_ = PTHREAD_MUTEX_INITIALIZER;
  alignas(64) SpinLock lock_;
  alignas(64) arena::NodeStore nodes_;
  BlockTable table_;
  Shard shards_[kMostShards];
  std::atomic<std::uint8_t> shards_open_{0};
  std::uint8_t most_shards_ = 1;
  std::uint32_t patience_ = 0;
  std::atomic<bool> apart_{false};  // not all threads are in the first shard
  std::uint64_t first_span_ = 0;    // bytes of addresses that the first shard has of a zone, and
  std::uint64_t other_span_ = 0;    // each of the others
  Pages pages_[kZones];
  Holding holding_;
  Streams streams_;
  Shelves shelves_;
  arena::GrowingArray<Use> uses_;
  std::atomic<std::size_t> uses_count_{0};
  std::atomic<ThreadCache*> caches_{nullptr};  // one is added under the pool's lock, none goes
  alignas(64) Counters counters_;
  std::atomic<std::uint64_t> age_{1};  // counts calls of decay()
  Pace pace_;
  std::uint32_t numbers_ = 0;   // given to blocks that were asked about
  std::uint64_t promoted_ = 0;  // the tickets that had passed at the last promote()
};

}  // namespace vram::pool
