// How the pool comes by pages, and gives them back. All of it under the growth lock: one thread at
// a time calls the driver, and the others go on with what is there.

#include <time.h>

#include "base/clock.h"
#include "pool/current.h"
#include "pool/segments.h"

namespace vram::pool {
namespace {

// Moving pages costs what mapping them costs, and so does emptying caches. Once as much was moved
// as the pool holds, a program pays more for tightness than it is worth to it: from then on, until
// it rests, the pool holds to the most that was live less tightly, from a 192nd above it to a
// third, and lets blocks be larger than they need be, from not at all to 12 %. A training gets
// there in some seconds when each of its steps moves pages, and never when they fit.
constexpr std::uint32_t kMostAbove = 8;  // classes; 64 are a doubling
// What a bin may always hold, and what a thread's cache may hold beyond that, of what is live.
constexpr std::uint64_t kBinShare = 1024;
constexpr std::uint64_t kCacheShare = 256;
// While threads would wait for each other, their caches together may hold this share, and one bin
// this share of its cache: memory for speed, as long as it lasts.
constexpr std::uint64_t kShareApart = 4;
constexpr std::uint64_t kLeastBinBytes = std::uint64_t{256} << 10;
constexpr std::uint64_t kMostBinBytes = std::uint64_t{32} << 20;
// At the limit a request waits this long for frees to become idle before it fails; TensorFlow waits
// as long. Work that waits for the program itself never gets there.
constexpr std::uint64_t kWaitAtLimit_us = 10'000'000;
constexpr std::uint64_t kWaitToTrim_us = 100'000;
// Where memory could be taken instead, waiting is for tightness only, and may cost a 256th of the
// time: at most so long at once, from an allowance that grows with time.
constexpr std::uint64_t kWaitForTightness_us = 20'000;
constexpr std::uint64_t kFirstAllowance_us = 100'000;
constexpr std::uint64_t kWaitShare = 256;
// What goes from one shard to another at once: enough to be worth the calls.
constexpr std::uint64_t kPagesAtOnce = 16;

class Growing {
 public:
  explicit Growing(pthread_mutex_t& mutex) : mutex_(mutex) { pthread_mutex_lock(&mutex_); }
  ~Growing() { pthread_mutex_unlock(&mutex_); }
  Growing(const Growing&) = delete;
  Growing& operator=(const Growing&) = delete;

 private:
  pthread_mutex_t& mutex_;
};

}  // namespace

// With the pool's lock and the context current. False: not for every stream.
bool Segments::issue_tickets() {
  bool issued = true;
  bool waiting[arena::kMaxStreams] = {};
  for_each_space([&](const arena::Space& space) {
    space.for_each_waiting([&](StreamId stream) { waiting[stream] = true; });
  });
  for (StreamId id = 1; id <= streams_.count(); ++id) {
    if (waiting[id] && !streams_.issue(id)) issued = false;
  }
  return issued;
}

// Until everything asked for has passed. Without the pool's lock.
void Segments::wait_for_tickets(std::uint64_t most_us) {
  const std::uint64_t begin = base::now_us();
  for (int looks = 0;; ++looks) {
    {
      const Locked hold(lock_);
      if (!streams_.outstanding()) return;
    }
    if (base::now_us() - begin >= most_us) return;
    if (looks < 100) {
      __builtin_ia32_pause();
      continue;
    }
    const timespec pause{0, 20'000};
    nanosleep(&pause, nullptr);
  }
}

void Segments::wait_for_tightness() {
  const std::uint64_t begin = base::now_us();
  const std::uint64_t allowed = kFirstAllowance_us + (begin - opened_us_) / kWaitShare;
  const std::uint64_t left = allowed > pace_.waited_us ? allowed - pace_.waited_us : 0;
  wait_for_tickets(left < kWaitForTightness_us ? left : kWaitForTightness_us);
  pace_.waited_us += base::now_us() - begin;
}

void Segments::set_pace(std::uint64_t more) {
  const std::uint64_t live =
      static_cast<std::uint64_t>(counters_.live_bytes.load(std::memory_order_relaxed));
  // With the request that is being served.
  const std::uint64_t wanted = live + more;
  if (wanted > pace_.peak_live) {
    pace_.peak_live = wanted;
    pace_.moved_bytes = 0;  // still warming up
  }
  set_cache_sizes();
  const std::uint32_t above = kTightest / pace_.slack_divisor / 2;
  hot_.classes_above.store(above > kMostAbove ? kMostAbove : above, std::memory_order_relaxed);
  // At first and then each time for twice as long: 1, 1, 2, 4 ... times what the pool holds.
  const std::uint64_t patience = above > 1 ? above : 1;
  if (pace_.moved_bytes <= patience * holding_.bytes() || pace_.slack_divisor <= kLoosest) return;
  pace_.slack_divisor /= 2;
  pace_.moved_bytes = 0;
}

void Segments::set_cache_sizes() {
  const std::uint64_t live =
      static_cast<std::uint64_t>(counters_.live_bytes.load(std::memory_order_relaxed));
  std::uint64_t bin_share = kBinShare;
  std::uint64_t cache_share = kCacheShare;
  if (apart_.load(std::memory_order_relaxed)) {
    cache_share = kShareApart * shards();
    bin_share = cache_share * kShareApart;
  }
  std::uint64_t bytes = live / bin_share;
  if (bytes < kLeastBinBytes) bytes = kLeastBinBytes;
  if (bytes > kMostBinBytes) bytes = kMostBinBytes;
  hot_.bin_bytes.store(bytes, std::memory_order_relaxed);
  hot_.cache_bytes.store(live / cache_share, std::memory_order_relaxed);
}

// Up to the most that was live and a share of it, the pool takes memory from the driver at once;
// beyond that, it first gathers what it has: what caches hold, pages of free stretches, and frees
// that are not idle yet. Without the share, a training that repeats itself would move pages in
// every step.
bool Segments::beyond_slack(std::uint64_t more) const {
  return holding_.bytes() + more > pace_.peak_live + pace_.peak_live / pace_.slack_divisor;
}

CUresult Segments::grow(NodeId* block, const Wanted& wanted) {
  const Growing growing(growth_);
  const Current current(driver_, context_);
  const CUresult result = try_to_grow(block, wanted);
  if (result != CUDA_SUCCESS) {
    // What was gathered for it is no good to anybody as spare pages.
    for (Pages& pages : pages_) (void)pages.release_spare(pages.spare());
  }
  return result;
}

CUresult Segments::try_to_grow(NodeId* block, const Wanted& wanted) {
  const auto found = [&] {
    {
      const Locked hold(lock_);
      promote();
    }
    *block = take(wanted);
    return *block != 0;
  };
  // Somebody may have freed or grown in the meantime.
  if (found()) return CUDA_SUCCESS;
  tell_all();
  set_pace(wanted.bytes);
  if (beyond_slack(wanted.bytes)) {
    pace_.moved_bytes += cached_bytes();
    empty_caches();
    if (found()) return CUDA_SUCCESS;
  }
  const CUresult result =
      grow_in(shards_[wanted.shard], wanted.zone, block, wanted, Gather::kWhenSlackIsUsed);
  if (result != CUDA_ERROR_OUT_OF_MEMORY) return result;
  {
    const Locked hold(lock_);
    (void)issue_tickets();
  }
  wait_for_tickets(kWaitAtLimit_us);
  empty_caches();
  return found() || take_from_any_zone(block, wanted) ? CUDA_SUCCESS : grow_anywhere(block, wanted);
}

bool Segments::take_from_any_zone(NodeId* block, const Wanted& wanted) {
  Wanted there = wanted;
  for (there.zone = 0; there.zone < kZones && *block == 0; ++there.zone) {
    there.shard = there.zone < kSharedOut ? wanted.shard : 0;
    *block = take(there);
  }
  return *block != 0;
}

// The own zone first, then the others, whose pages may leave less over; in each, the own shard
// first.
CUresult Segments::grow_anywhere(NodeId* block, const Wanted& wanted) {
  CUresult result = CUDA_ERROR_OUT_OF_MEMORY;
  for (std::uint8_t i = 0; i < kZones; ++i) {
    const std::uint8_t zone = i == 0 ? wanted.zone : i <= wanted.zone ? i - 1 : i;
    for (std::uint8_t j = 0; j < shards(); ++j) {
      const std::uint8_t shard = j == 0 ? wanted.shard : j <= wanted.shard ? j - 1 : j;
      if (zone >= Shard::zones(shard)) continue;
      result = grow_in(shards_[shard], zone, block, wanted, Gather::kAlways);
      if (result != CUDA_ERROR_OUT_OF_MEMORY) return result;
    }
  }
  return result;
}

// With no more than half of what shards have on average.
bool Segments::is_poor(std::uint8_t shard, std::uint8_t zone) {
  std::uint64_t all = 0;
  std::uint64_t own = 0;
  const std::uint8_t count = shards();
  for (std::uint8_t s = 0; s < count; ++s) {
    const Locked hold(shards_[s].lock);
    const std::uint64_t backed = shards_[s].spaces[zone].backed_bytes();
    all += backed;
    if (s == shard) own = backed;
  }
  return own * count * 2 < all;
}

// Gives a shard that has little pages that idle in others.
void Segments::even_out(const Wanted& wanted) {
  wanted.cache->borrowed = 0;
  if (!is_poor(wanted.shard, wanted.zone)) return;
  const Growing growing(growth_);
  const Current current(driver_, context_);
  {
    const Locked hold(lock_);
    (void)issue_tickets();
    promote();
  }
  Pages& pages = pages_[wanted.zone];
  Wanted more = wanted;
  more.bytes = take_idle_pages(wanted.zone, kPagesAtOnce, ~std::uint64_t{0}) * pages.page();
  NodeId block = 0;
  if (more.bytes != 0 &&
      grow_in(shards_[wanted.shard], wanted.zone, &block, more, Gather::kAlways) == CUDA_SUCCESS) {
    give(block, 0);
  }
  (void)pages.release_spare(pages.spare());
}

CUresult Segments::grow_in(Shard& shard, std::uint8_t zone, NodeId* block, const Wanted& wanted,
                           Gather gather) {
  arena::Space& space = shard.spaces[zone];
  arena::Place place{};
  NodeId first = 0;
  {
    const Locked hold(shard.lock);
    if (!space.find_place(wanted.bytes, wanted.id, &place)) return CUDA_ERROR_OUT_OF_MEMORY;
    first = space.occupy(place);
    if (first == 0) return CUDA_ERROR_OUT_OF_MEMORY;
  }
  const CUresult backed = back(shard, zone, first, place.missing_pages, gather);
  const Locked hold(shard.lock);
  if (backed != CUDA_SUCCESS) {
    space.abandon(first);
    return backed;
  }
  const NodeId taken = space.settle(first, place);
  if (!list(taken)) {
    space.give(taken, 0, 0, age_.load(std::memory_order_relaxed));
    return CUDA_ERROR_OUT_OF_MEMORY;
  }
  *block = taken;
  return CUDA_SUCCESS;
}

// Backs what is missing in a row of busy nodes, or nothing.
CUresult Segments::back(const Shard& shard, std::uint8_t zone, NodeId first, std::uint64_t missing,
                        Gather gather) {
  if (missing == 0) return CUDA_SUCCESS;
  const arena::Space& space = shard.spaces[zone];
  Pages& pages = pages_[zone];
  take_idle_for(zone, missing, gather);
  struct Run {
    std::uint64_t page;
    std::uint64_t count;
  };
  CUresult result = CUDA_SUCCESS;
  NodeId failed_at = 0;
  space.for_each_missing(first, [&](NodeId run, std::uint64_t page, std::uint64_t count) {
    if (result != CUDA_SUCCESS) return;
    result = pages.back(page, count);
    if (result != CUDA_SUCCESS) failed_at = run;
  });
  if (result == CUDA_SUCCESS) {
    counters_.pages_backed.fetch_add(missing, std::memory_order_relaxed);
    return result;
  }
  bool reached = false;
  space.for_each_missing(first, [&](NodeId run, std::uint64_t page, std::uint64_t count) {
    reached = reached || run == failed_at;
    if (!reached) pages.drop(page, count);
  });
  return result;
}

// Before the driver is asked for pages: those that idle elsewhere in the pool.
void Segments::take_idle_for(std::uint8_t zone, std::uint64_t count, Gather gather) {
  Pages& pages = pages_[zone];
  if (count <= pages.spare()) return;
  std::uint64_t wanted = count - pages.spare();
  if (gather == Gather::kWhenSlackIsUsed) {
    if (!beyond_slack(wanted * pages.page())) return;
    {
      const Locked hold(lock_);
      (void)issue_tickets();
    }
    wait_for_tightness();
    const Locked hold(lock_);
    promote();
  }
  wanted -= take_idle_pages(zone, wanted, ~std::uint64_t{0});
  for (std::uint8_t z = kZones; z-- > 0 && wanted > 0;) {
    if (z == zone) continue;
    Pages& other = pages_[z];
    const std::uint64_t page = other.page();
    const std::uint64_t needed = (wanted * pages.page() + page - 1) / page;
    if (needed > other.spare()) {
      (void)take_idle_pages(z, needed - other.spare(), ~std::uint64_t{0});
    }
    const std::uint64_t freed = other.release_spare(needed) * page / pages.page();
    wanted -= freed < wanted ? freed : wanted;
  }
}

// Makes idle pages spare; how many.
std::uint64_t Segments::take_idle_pages(std::uint8_t zone, std::uint64_t count,
                                        std::uint64_t freed_by) {
  std::uint64_t taken = 0;
  for (std::uint8_t s = 0; s < shards() && taken < count; ++s) {
    if (zone < Shard::zones(s)) {
      taken += take_idle_pages_of(shards_[s], zone, count - taken, freed_by);
    }
  }
  return taken;
}

std::uint64_t Segments::take_idle_pages_of(Shard& shard, std::uint8_t zone, std::uint64_t count,
                                           std::uint64_t freed_by) {
  arena::Space& space = shard.spaces[zone];
  Pages& pages = pages_[zone];
  std::uint64_t taken = 0;
  while (taken < count) {
    NodeId run = 0;
    {
      const Locked hold(shard.lock);
      run = space.detach(count - taken, streams_.idle(), freed_by);
      if (run == 0) return taken;
    }
    const std::uint64_t first = nodes_[run].start / pages.page();
    const std::uint64_t run_pages = nodes_[run].bytes / pages.page();
    const CUresult unbacked = pages.unback(first, run_pages);
    const Locked hold(shard.lock);
    if (unbacked != CUDA_SUCCESS) {
      space.attached(run);
      return taken;
    }
    space.detached(run);
    taken += run_pages;
    pace_.moved_bytes += run_pages * pages.page();
  }
  return taken;
}

std::uint64_t Segments::give_back(std::uint64_t keep, std::uint64_t freed_by) {
  const std::uint64_t before = holding_.bytes();
  // Large pages first: more bytes a call.
  for (std::uint8_t z = kZones; z-- > 0 && holding_.bytes() > keep;) {
    Pages& pages = pages_[z];
    pages.sweep();
    const std::uint64_t page = pages.page();
    const std::uint64_t surplus = (holding_.bytes() - keep + page - 1) / page;
    if (surplus > pages.spare()) (void)take_idle_pages(z, surplus - pages.spare(), freed_by);
    (void)pages.release_spare(surplus);
  }
  const std::uint64_t after = holding_.bytes();
  return before > after ? before - after : 0;
}

Segments::Marks Segments::mark(CUstream stream) {
  const Locked hold(lock_);
  Marks marks{};
  if (const StreamId id = streams_.find(stream); id != 0) {
    marks.of[marks.count++] = {id, streams_.close_ticket(id)};
  }
  return marks;
}

Segments::Marks Segments::mark_all() {
  const Locked hold(lock_);
  Marks marks{};
  for (StreamId id = 1; id <= streams_.count() && marks.count < Marks::kMost; ++id) {
    marks.of[marks.count++] = {id, streams_.close_ticket(id)};
  }
  return marks;
}

void Segments::synchronized(const Marks& marks) {
  const Locked hold(lock_);
  for (unsigned i = 0; i < marks.count; ++i) {
    streams_.note_synchronized(marks.of[i].stream, marks.of[i].ticket);
  }
}

std::uint64_t Segments::trim(std::uint64_t keep) { return let_go(keep, kWaitToTrim_us); }

std::uint64_t Segments::give_back_idle(std::uint64_t keep) { return let_go(keep, 0); }

std::uint64_t Segments::let_go(std::uint64_t keep, std::uint64_t wait_us) {
  const Growing growing(growth_);
  const Current current(driver_, context_);
  empty_caches();
  // A block that other streams used is free on its own when they are done: then that one is asked.
  for (int round = uses_count_ > 0 ? 0 : 1; round < 2; ++round) {
    {
      const Locked hold(lock_);
      settle_uses();
      // A call that failed may succeed the second time.
      if (!issue_tickets()) (void)issue_tickets();
    }
    wait_for_tickets(wait_us);
  }
  {
    const Locked hold(lock_);
    promote();
  }
  return give_back(keep, ~std::uint64_t{0});
}

std::uint64_t Segments::decay() {
  const Growing growing(growth_);
  const Current current(driver_, context_);
  {
    const Locked hold(lock_);
    promote();
  }
  const std::uint64_t given = give_back(0, age_.load(std::memory_order_relaxed) - 1);
  const std::uint64_t allocations = counters_.allocations.load(std::memory_order_relaxed);
  if (allocations == pace_.at_decay) {
    pace_.slack_divisor = kTightest;
    pace_.peak_live = 0;
    come_together();
  }
  pace_.at_decay = allocations;
  // For the next time: what caches hold ages from now, and tickets pass in the meantime.
  empty_caches();
  const Locked hold(lock_);
  age_.fetch_add(1, std::memory_order_relaxed);
  (void)issue_tickets();
  return given;
}

std::uint64_t Segments::cached_bytes() {
  std::uint64_t bytes = 0;
  for (ThreadCache* cache = first_cache(); cache != nullptr; cache = cache->next) {
    const Locked hold(cache->lock);
    bytes += cache->bytes;
  }
  return bytes;
}

void Segments::empty_caches() {
  StreamId streams = 0;
  {
    const Locked hold(lock_);
    streams = streams_.count();
  }
  for (ThreadCache* cache = first_cache(); cache != nullptr; cache = cache->next) empty(*cache);
  for (StreamId id = 1; id <= streams; ++id) {
    for (std::uint32_t size_class = 0; size_class < kCachedClasses; ++size_class) {
      while (const NodeId chain = shelves_.get(nodes_, id, size_class)) give_chain(chain, id);
    }
  }
}

void Segments::empty(ThreadCache& cache) {
  struct {
    NodeId chain;
    StreamId stream;
  } taken[ThreadCache::kStreams] = {};
  {
    const Locked hold(cache.lock);
    tell(cache);
    for (unsigned i = 0; i < ThreadCache::kStreams; ++i) {
      StreamBins& bins = cache.streams[i];
      if (bins.id == 0 || !bins.used) continue;
      bins.used = false;
      taken[i] = {take_all(bins), bins.id};
    }
    cache.bytes = 0;
  }
  for (const auto& [chain, stream] : taken) give_chain(chain, stream);
}

// With the cache's lock: one chain of all that is in the bins.
NodeId Segments::take_all(StreamBins& bins) {
  NodeId all = 0;
  for (Bin& bin : bins.bins) {
    while (bin.head != 0) {
      const NodeId block = bin.head;
      bin.head = nodes_[block].next;
      nodes_[block].next = all;
      all = block;
    }
    bin.count = 0;
  }
  return all;
}

void Segments::retire(ThreadCache* cache) {
  empty(*cache);
  {
    const Locked hold(cache->lock);
    for (StreamBins& bins : cache->streams) bins.id = 0;
  }
  const Locked hold(lock_);
  --shards_[cache->shard].threads;
  cache->shard = 0;
  cache->waits = 0;
  cache->owned = false;
}

CUresult Segments::allow(CUdevice other) {
  const Growing growing(growth_);
  const Current current(driver_, context_);
  CUresult result = CUDA_SUCCESS;
  for (Pages& pages : pages_) {
    const CUresult opened = pages.allow(other);
    if (result == CUDA_SUCCESS) result = opened;
  }
  return result;
}

void Segments::forget_stream(CUstream stream) {
  {
    const Locked hold(lock_);
    if (streams_.find(stream) == 0) return;
  }
  const Growing growing(growth_);
  const Current current(driver_, context_);
  leave_bins(stream);
  const Locked hold(lock_);
  streams_.forget(stream);
}

// The handle is going to mean another stream: no cache may know it by the old one.
void Segments::leave_bins(CUstream stream) {
  empty_caches();
  for (ThreadCache* cache = first_cache(); cache != nullptr; cache = cache->next) {
    const Locked hold(cache->lock);
    for (StreamBins& bins : cache->streams) {
      if (bins.stream == stream) bins.id = 0;
    }
  }
}

bool Segments::begin_capture(CUstream stream, StreamId* capture) {
  const Growing growing(growth_);
  leave_bins(stream);
  const Locked hold(lock_);
  *capture = streams_.begin_capture(stream);
  return *capture != 0;
}

bool Segments::end_capture(StreamId capture) {
  const Growing growing(growth_);
  CUstream stream = nullptr;
  {
    const Locked hold(lock_);
    if (!streams_.captures(capture)) return false;
    stream = streams_.handle_of(capture);
  }
  leave_bins(stream);
  const Locked hold(lock_);
  streams_.end_capture(capture);
  return true;
}

bool Segments::release_capture(StreamId capture) {
  const Growing growing(growth_);
  const Locked hold(lock_);
  if (!streams_.is_capture(capture) || streams_.captures(capture)) return false;
  streams_.release_capture(capture);
  promote();
  return true;
}

}  // namespace vram::pool
