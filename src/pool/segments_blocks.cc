// A block's way out of the pool and back, as long as no page is needed for it.

#include <sys/mman.h>

#include "pool/current.h"
#include "pool/segments.h"

namespace vram::pool {
namespace {

using arena::Node;

// A cache tells the pool what is live when it is off by this much: rarely enough that threads do
// not meet at the counters.
constexpr std::int64_t kTellAfter = std::int64_t{32} << 20;
// Longer requests than any card's memory would overflow when they are rounded.
constexpr std::uint64_t kLongest = std::uint64_t{1} << 46;
// A shard whose threads took so many blocks elsewhere should have more memory of its own.
constexpr std::uint32_t kMostBorrowed = 64;

void raise_to(std::atomic<std::int64_t>& highest, std::int64_t value) {
  std::int64_t seen = highest.load(std::memory_order_relaxed);
  while (seen < value && !highest.compare_exchange_weak(seen, value, std::memory_order_relaxed)) {
  }
}

}  // namespace

// `highest` is the most that was live on the way, relative to before.
void Segments::count(std::int64_t bytes, std::int64_t blocks, std::int64_t highest) {
  const std::int64_t before = counters_.live_bytes.fetch_add(bytes, std::memory_order_relaxed);
  raise_to(counters_.peak_live_bytes, before + highest);
  counters_.live_blocks.fetch_add(blocks, std::memory_order_relaxed);
}

void Segments::tell(ThreadCache& cache) {
  count(cache.live_bytes, cache.live_blocks, cache.highest_live_bytes);
  counters_.allocations.fetch_add(cache.allocations, std::memory_order_relaxed);
  std::uint64_t largest = counters_.largest_request.load(std::memory_order_relaxed);
  while (largest < cache.largest_request &&
         !counters_.largest_request.compare_exchange_weak(largest, cache.largest_request,
                                                          std::memory_order_relaxed)) {
  }
  cache.live_bytes = 0;
  cache.highest_live_bytes = 0;
  cache.live_blocks = 0;
  cache.allocations = 0;
}

// With the pool's lock, or with the growth lock: caches are only ever added.
void Segments::tell_all() {
  for (ThreadCache* cache = first_cache(); cache != nullptr; cache = cache->next) {
    const Locked of_cache(cache->lock);
    tell(*cache);
  }
}

void Segments::hand_out(ThreadCache& cache, Node& node, std::uint64_t asked) {
  node.handed_out = true;
  node.ticket = asked;
  node.previous = 0;
  cache.live_bytes += static_cast<std::int64_t>(node.bytes);
  if (cache.live_bytes > cache.highest_live_bytes) cache.highest_live_bytes = cache.live_bytes;
  ++cache.live_blocks;
  ++cache.allocations;
  if (asked > cache.largest_request) cache.largest_request = asked;
  if (cache.live_bytes > kTellAfter) tell(cache);
}

ThreadCache* Segments::cache_of_thread() {
  ThreadCache* cache = cache_in_slot(hot_.number);
  return cache != nullptr ? cache : make_cache();
}

ThreadCache* Segments::make_cache() {
  if (hot_.number.serial == 0) return nullptr;
  ThreadCache* cache = nullptr;
  {
    const Locked hold(lock_);
    for (ThreadCache* c = first_cache(); c != nullptr && cache == nullptr; c = c->next) {
      if (!c->owned) cache = c;
    }
    if (cache != nullptr) cache->owned = true;
  }
  if (cache == nullptr) {
    void* at = mmap(nullptr, sizeof(ThreadCache), PROT_READ | PROT_WRITE,
                    MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (at == MAP_FAILED) return nullptr;
    cache = static_cast<ThreadCache*>(at);
    cache->owned = true;
    const Locked hold(lock_);
    cache->next = first_cache();
    caches_.store(cache, std::memory_order_release);
  }
  const bool set = set_cache_in_slot(hot_.number, cache);
  const Locked hold(lock_);
  if (set) {
    ++shards_[0].threads;
    return cache;
  }
  cache->owned = false;
  return nullptr;
}

// To a shard that fewer threads use.
void Segments::move_apart(ThreadCache& cache) {
  cache.waits = 0;
  const Locked hold(lock_);
  if (shards_[cache.shard].threads < 2) return;
  std::uint8_t best = 0;
  for (std::uint8_t s = 1; s < shards(); ++s) {
    if (shards_[s].threads < shards_[best].threads) best = s;
  }
  const std::uint8_t next = shards();
  if (shards_[best].threads > 0 && next < most_shards_ && open_shard(next)) best = next;
  const Locked of_cache(cache.lock);
  if (shards_[best].threads + 1 >= shards_[cache.shard].threads) return;
  --shards_[cache.shard].threads;
  ++shards_[best].threads;
  cache.shard = best;
  apart_.store(true, std::memory_order_relaxed);
  set_cache_sizes();
}

void Segments::come_together() {
  if (!apart_.load(std::memory_order_relaxed)) return;
  const Locked hold(lock_);
  for (ThreadCache* cache = first_cache(); cache != nullptr; cache = cache->next) {
    const Locked of_cache(cache->lock);
    if (!cache->owned) continue;
    --shards_[cache->shard].threads;
    ++shards_[0].threads;
    cache->shard = 0;
  }
  apart_.store(false, std::memory_order_relaxed);
  set_cache_sizes();
}

StreamBins* Segments::bins_of(ThreadCache& cache, CUstream stream) {
  {
    const Inside hold(cache.lock);
    if (StreamBins* bins = cache.bins_of(stream); bins != nullptr) return bins;
  }
  StreamId id = 0;
  {
    const Locked hold(lock_);
    id = streams_.id_of(stream);
  }
  if (id == 0) return nullptr;
  const Inside hold(cache.lock);
  for (std::uint32_t i = 0; i < ThreadCache::kStreams; ++i) {
    StreamBins& bins = cache.streams[i];
    if (bins.id != 0) continue;
    bins.stream = stream;
    bins.id = id;
    cache.newest = i;
    return &bins;
  }
  return nullptr;
}

// With the cache's lock. Sizes of a few classes above will do as well; see set_pace().
NodeId Segments::find_cached(ThreadCache& cache, StreamBins& bins, std::uint32_t size_class) {
  Bin* bin = &bins.bins[size_class];
  if (bin->head == 0) {
    bin->head = shelves_.get(nodes_, bins.id, size_class);
    if (bin->head != 0) {
      bin->count = kChain;
      bins.used = true;
      cache.bytes += kChain * nodes_[bin->head].bytes;
    } else {
      const std::uint32_t most = hot_.classes_above.load(std::memory_order_relaxed);
      for (std::uint32_t above = 1; above <= most && bin->head == 0; ++above) {
        if (size_class + above < kCachedClasses) bin = &bins.bins[size_class + above];
      }
      if (bin->head == 0) return 0;
    }
  }
  const NodeId block = bin->head;
  bin->head = nodes_[block].next;
  --bin->count;
  cache.bytes -= nodes_[block].bytes;
  return block;
}

CUresult Segments::allocate(CUdeviceptr* address, std::uint64_t bytes, CUstream stream) {
  if (bytes == 0) return CUDA_ERROR_INVALID_VALUE;
  if (bytes > kLongest) return CUDA_ERROR_OUT_OF_MEMORY;
  const std::uint32_t size_class = arena::class_of(bytes);
  ThreadCache* cache = cache_of_thread();
  StreamId id = 0;
  std::uint8_t shard = 0;
  if (cache != nullptr) {
    const Inside hold(cache->lock);
    if (StreamBins* bins = cache->bins_of(stream); bins != nullptr) {
      id = bins->id;
      const NodeId block = size_class < kCachedClasses ? find_cached(*cache, *bins, size_class) : 0;
      if (block != 0) {
        hand_out(*cache, nodes_[block], bytes);
        *address = address_of(nodes_[block]);
        return CUDA_SUCCESS;
      }
    }
    shard = cache->shard;
  }
  const std::uint64_t rounded = block_bytes(bytes);
  const std::uint8_t zone = zone_of(rounded);
  if (zone >= kSharedOut) shard = 0;
  return allocate_centrally(address, {bytes, rounded, size_class, stream, id, zone, shard, cache});
}

NodeId Segments::take(const Wanted& wanted) {
  const NodeId block = take_from_any(wanted);
  if (block != 0 || uses_count_.load(std::memory_order_relaxed) == 0) return block;
  {
    const Locked hold(lock_);
    settle_uses();
  }
  return take_from_any(wanted);
}

// The own shard first. What another one has over is better than a page moved.
NodeId Segments::take_from_any(const Wanted& wanted) {
  NodeId block = take_from(shards_[wanted.shard], wanted);
  if (block != 0 || wanted.zone >= kSharedOut) return block;
  const std::uint8_t count = shards();
  for (std::uint8_t i = 1; i < count && block == 0; ++i) {
    block = take_from(shards_[(wanted.shard + i) % count], wanted);
  }
  if (block != 0 && wanted.cache != nullptr) ++wanted.cache->borrowed;
  return block;
}

NodeId Segments::take_from(Shard& shard, const Wanted& wanted) {
  if (!shard.lock.try_lock()) {
    if (wanted.cache != nullptr) ++wanted.cache->waits;
    shard.lock.lock();
  }
  const NodeId block = shard.spaces[wanted.zone].take(wanted.bytes, wanted.id);
  const bool listed = block != 0 && list(block);
  if (block != 0 && !listed) give_to(shard, block, wanted.id);
  shard.lock.unlock();
  return listed ? block : 0;
}

// With the shard's lock. False: no memory for the entry; the block is still taken.
bool Segments::list(NodeId block) {
  return table_.insert(address_of(nodes_[block]), block, [this] {
    for (ThreadCache* cache = first_cache(); cache != nullptr; cache = cache->next) {
      const Locked wait(cache->lock);
    }
  });
}

CUresult Segments::allocate_centrally(CUdeviceptr* address, const Wanted& asked) {
  Wanted wanted = asked;
  if (wanted.id == 0) {
    const Locked hold(lock_);
    wanted.id = streams_.id_of(wanted.stream);
  }
  const bool captured = streams_.is_capture(wanted.id);
  NodeId block = take(wanted);
  if (block == 0) {
    const CUresult grown = grow(&block, wanted);
    if (grown != CUDA_SUCCESS) {
      counters_.failures.fetch_add(1, std::memory_order_relaxed);
      return grown;
    }
  }
  Node& node = nodes_[block];
  // A block that could not be cut to size is no good for the bin of its class.
  node.size_class = node.bytes == wanted.bytes ? wanted.size_class : kUncached;
  node.capture = captured ? wanted.id : StreamId{0};
  // A captured block goes back to its capture, by way of no bin.
  if (node.capture != 0) node.size_class = kUncached;
  *address = address_of(node);
  if (ThreadCache* cache = wanted.cache; cache != nullptr) {
    if (cache->waits >= patience_) move_apart(*cache);
    if (cache->borrowed > kMostBorrowed) even_out(wanted);
    const Inside hold(cache->lock);
    hand_out(*cache, node, wanted.asked);
  } else {
    node.handed_out = true;
    node.ticket = wanted.asked;
    node.previous = 0;
    const std::int64_t bytes = static_cast<std::int64_t>(node.bytes);
    count(bytes, 1, bytes);
    counters_.allocations.fetch_add(1, std::memory_order_relaxed);
  }
  return CUDA_SUCCESS;
}

// Takes the newest blocks out of a full bin: a chain, for the shelf.
NodeId Segments::cut_chain(Bin& bin) {
  const NodeId chain = bin.head;
  NodeId last = chain;
  for (std::uint32_t i = 1; i < kChain; ++i) last = nodes_[last].next;
  bin.head = nodes_[last].next;
  bin.count -= kChain;
  nodes_[last].next = 0;
  return chain;
}

// With the cache's lock. False: the block is too large for what the bin holds already. What the
// shelf has no room for is left over, for the pool's space.
bool Segments::keep(ThreadCache& cache, StreamBins& bins, NodeId block, NodeId* left_over) {
  Node& node = nodes_[block];
  Bin& bin = bins.bins[node.size_class];
  if ((bin.count + 1) * node.bytes > hot_.bin_bytes.load(std::memory_order_relaxed) &&
      cache.bytes + node.bytes > hot_.cache_bytes.load(std::memory_order_relaxed)) {
    return false;
  }
  if (bin.count >= kMostInBin) {
    const NodeId chain = cut_chain(bin);
    cache.bytes -= kChain * node.bytes;
    if (!shelves_.put(nodes_, bins.id, node.size_class, chain)) *left_over = chain;
  }
  node.next = bin.head;
  bin.head = block;
  ++bin.count;
  cache.bytes += node.bytes;
  bins.used = true;
  return true;
}

bool Segments::free(CUdeviceptr address, CUstream stream) {
  ThreadCache* cache = cache_of_thread();
  if (cache == nullptr) return free_without_cache(address, stream);
  NodeId block = 0;
  NodeId left_over = 0;
  StreamId id = 0;  // 0: the cache does not know the stream, or the block was used on others too
  {
    const Inside hold(cache->lock);
    block = table_.find(address);
    if (block == 0 || !nodes_[block].handed_out) return false;
    Node& node = nodes_[block];
    node.handed_out = false;
    cache->live_bytes -= static_cast<std::int64_t>(node.bytes);
    --cache->live_blocks;
    if (cache->live_bytes < -kTellAfter) tell(*cache);
    StreamBins* bins = node.has_uses ? nullptr : cache->bins_of(stream);
    if (bins != nullptr) {
      id = bins->id;
      if (node.size_class < kCachedClasses && keep(*cache, *bins, block, &left_over)) block = 0;
    }
  }
  if (left_over != 0) give_chain(left_over, id);
  if (block == 0) return true;
  if (id != 0) {
    give(block, id);
  } else {
    free_centrally(block, stream);
  }
  return true;
}

bool Segments::free_without_cache(CUdeviceptr address, CUstream stream) {
  NodeId block = 0;
  {
    const Locked hold(lock_);
    block = table_.find_without_cache(address);
    if (block == 0 || !nodes_[block].handed_out) return false;
    nodes_[block].handed_out = false;
  }
  count(-static_cast<std::int64_t>(nodes_[block].bytes), -1, 0);
  free_centrally(block, stream);
  return true;
}

void Segments::free_centrally(NodeId block, CUstream stream) {
  ThreadCache* cache = cache_in_slot(hot_.number);
  if (cache != nullptr && nodes_[block].size_class < kCachedClasses && !nodes_[block].has_uses) {
    if (StreamBins* bins = bins_of(*cache, stream); bins != nullptr) {
      const Inside hold(cache->lock);
      NodeId left_over = 0;  // nothing: the block was refused, or its bin is new and empty
      if (bins->stream == stream && bins->id != 0 && keep(*cache, *bins, block, &left_over)) return;
    }
  }
  if (!nodes_[block].has_uses) {
    StreamId id = 0;
    {
      const Locked hold(lock_);
      id = streams_.id_of(stream);
    }
    if (id != 0) {
      give(block, id);
      return;
    }
  }
  const Current current(driver_, context_);
  {
    const Locked hold(lock_);
    if (const StreamId id = streams_.id_of(stream); id != 0) {
      free_used(block, id);
      return;
    }
  }
  // Too many streams to tell them apart: wait until the block is idle.
  (void)driver_.context_synchronize();
  give(block, 0);
}

void Segments::give(NodeId block, StreamId stream) {
  Shard& shard = shards_[nodes_[block].shard];
  const Locked hold(shard.lock);
  give_to(shard, block, stream);
}

// With the shard's lock.
void Segments::give_to(Shard& shard, NodeId block, StreamId stream) {
  Node& node = nodes_[block];
  if (node.capture != 0 && streams_.is_capture(node.capture)) stream = node.capture;
  node.capture = 0;
  table_.remove(address_of(node));
  const std::uint64_t ticket = stream == 0 ? 0 : streams_.next_ticket(stream);
  shard.spaces[node.space].give(block, stream, ticket, age_.load(std::memory_order_relaxed));
}

void Segments::give_chain(NodeId chain, StreamId stream) {
  while (chain != 0) {
    Shard& shard = shards_[nodes_[chain].shard];
    const Locked hold(shard.lock);
    while (chain != 0 && &shards_[nodes_[chain].shard] == &shard) {
      const NodeId next = nodes_[chain].next;
      give_to(shard, chain, stream);
      chain = next;
    }
  }
}

bool Segments::record_use(CUdeviceptr address, CUstream stream) {
  {
    const Locked hold(lock_);
    const NodeId block = table_.find_without_cache(address);
    if (block == 0 || !nodes_[block].handed_out) return false;
    const StreamId id = streams_.id_of(stream);
    if (id != 0 && uses_count_ < uses_.capacity()) {
      nodes_[block].has_uses = true;
      uses_[uses_count_++] = {block, id, 0};
      return true;
    }
  }
  const Current current(driver_, context_);
  (void)driver_.stream_synchronize(stream);
  return true;
}

// With the pool's lock and the context current. The block is free when all its streams are done.
void Segments::free_used(NodeId block, StreamId stream) {
  std::uint64_t pending = 0;
  for (std::size_t i = 0; i < uses_count_; ++i) {
    Use& use = uses_[i];
    if (use.block != block) continue;
    use.ticket = streams_.next_ticket(use.stream);
    (void)streams_.issue(use.stream);
    ++pending;
  }
  nodes_[block].stream = stream;
  nodes_[block].ticket = pending;
}

// With the pool's lock.
void Segments::settle_uses() {
  for (std::size_t i = 0; i < uses_count_;) {
    const Use use = uses_[i];
    if (use.ticket == 0 || !streams_.passed(use.stream, use.ticket)) {
      ++i;
      continue;
    }
    uses_[i] = uses_[--uses_count_];
    Node& node = nodes_[use.block];
    if (--node.ticket == 0) give(use.block, node.stream);
  }
}

// With the pool's lock.
void Segments::promote() {
  settle_uses();
  const std::uint64_t passed = streams_.passed_tickets();
  if (passed == promoted_) return;
  promoted_ = passed;
  for_each_space([&](arena::Space& space) { space.promote(streams_.idle()); });
}

std::uint64_t Segments::bytes_at(CUdeviceptr address) {
  const Locked hold(lock_);
  const NodeId block = table_.find_without_cache(address);
  return block == 0 || !nodes_[block].handed_out ? 0 : nodes_[block].bytes;
}

bool Segments::block_around(CUdeviceptr address, BlockAsked* block) {
  bool found = false;
  const auto look_at = [&](Node& node) {
    if (node.kind != arena::NodeKind::kLive || !node.handed_out ||
        address - address_of(node) >= node.ticket) {
      return;
    }
    if (node.previous == 0) node.previous = ++numbers_;
    *block = {address_of(node), node.ticket, node.previous};
    found = true;
  };
  const Locked hold(lock_);
  if (const NodeId first = table_.find_without_cache(address); first != 0) look_at(nodes_[first]);
  if (found || !contains(address)) return found;
  for_each_space([&](const arena::Space& space) {
    space.for_each([&](const Node& node) {
      if (!found) look_at(const_cast<Node&>(node));
    });
  });
  return found;
}

}  // namespace vram::pool
