#include "pool/segments.h"

#include <sched.h>
#include <sys/mman.h>

#include "base/clock.h"
#include "pool/current.h"

namespace vram::pool {
namespace {

constexpr std::uint64_t kMiB = std::uint64_t{1} << 20;
constexpr std::uint64_t kPage = 2 * kMiB;  // every card's granularity so far
constexpr std::uint64_t kLargestPage = 16 * kMiB;

// Blocks of a range of sizes lie together, on pages that suit them: mapping a large page costs
// hardly more than a small one, so moving memory and giving it back cost a fraction, but a part of
// one that is not used counts more. Chosen over 23 recorded programs (bench/traces).
struct ZoneShape {
  std::uint64_t largest_block;
  std::uint64_t page;
};
constexpr ZoneShape kShapes[] = {
    {kMiB, kPage}, {4 * kMiB, kPage}, {64 * kMiB, 4 * kPage}, {~std::uint64_t{0}, kLargestPage}};
// Addresses cost nothing; with plenty, a place for a block is never far.
constexpr std::uint64_t kSpanOfCards = 8;

constexpr std::uint64_t round_up(std::uint64_t bytes, std::uint64_t unit) {
  return (bytes + unit - 1) / unit * unit;
}

// That this process may run on.
unsigned processors() {
  cpu_set_t allowed;
  const bool known = sched_getaffinity(0, sizeof allowed, &allowed) == 0;
  return known ? static_cast<unsigned>(CPU_COUNT(&allowed)) : CPU_SETSIZE;
}

}  // namespace

std::uint8_t Segments::zone_of(std::uint64_t bytes) {
  std::uint8_t zone = 0;
  while (bytes > kShapes[zone].largest_block) ++zone;
  return zone;
}

// Fewer addresses where the process may not have many, and the same for each zone; with less than
// a card's, a block may be refused that the card would still hold.
CUresult Segments::open_zones(CUdevice device, std::uint64_t card) {
  CUresult result = CUDA_ERROR_OUT_OF_MEMORY;
  for (std::uint64_t eighths = 8 * kSpanOfCards; eighths > 0; eighths /= 2) {
    first_span_ = round_up(card / 8 * eighths, kLargestPage);
    other_span_ = round_up(first_span_ / kMostShards, kLargestPage);
    result = CUDA_SUCCESS;
    for (std::uint8_t i = 0; i < kZones && result == CUDA_SUCCESS; ++i) {
      const std::uint64_t others = i < kSharedOut ? kMostShards - 1 : 0;
      result = pages_[i].open(driver_, &holding_, device, first_span_ + others * other_span_,
                              kShapes[i].page);
    }
    if (result == CUDA_SUCCESS) break;
    for (Pages& pages : pages_) pages.close();
  }
  if (result != CUDA_SUCCESS) return result;
  for (std::uint8_t i = 0; i < kZones; ++i) hot_.base[i] = pages_[i].base();
  return open_shard(0) ? CUDA_SUCCESS : CUDA_ERROR_OUT_OF_MEMORY;
}

// With the pool's lock, or before anybody else has the pool. False: no memory for bookkeeping.
bool Segments::open_shard(std::uint8_t shard) {
  const std::uint64_t begin = shard == 0 ? 0 : first_span_ + (shard - 1) * other_span_;
  shards_[shard].nodes.open(&nodes_);
  for (std::uint8_t z = 0; z < Shard::zones(shard); ++z) {
    if (!shards_[shard].spaces[z].open(&shards_[shard].nodes, z, shard, begin,
                                       shard == 0 ? first_span_ : other_span_, kShapes[z].page)) {
      return false;
    }
  }
  shards_open_.store(shard + 1, std::memory_order_release);
  return true;
}

CUresult Segments::open(const DriverCalls& driver, const SegmentsOptions& options) {
  driver_ = driver;
  context_ = options.context;
  opened_us_ = base::now_us();
  base::KernelBarrier::prepare();
  holding_.set_grant(options.grant);
  holding_.set_limit(options.limit);
  const Current current(driver_, context_);
  std::size_t total = 0;
  CUresult result = driver_.device_total(&total, options.device);
  if (result != CUDA_SUCCESS) return result;
  if (!nodes_.open() || !shelves_.open() || !uses_.reserve(1 << 20)) {
    return CUDA_ERROR_OUT_OF_MEMORY;
  }
  result = streams_.open(driver_);
  if (result != CUDA_SUCCESS) return result;
  open_ = true;
  result = open_zones(options.device, total);
  if (result != CUDA_SUCCESS) {
    close();
    return result;
  }
  const unsigned most = options.most_shards != 0 ? options.most_shards : processors();
  most_shards_ = static_cast<std::uint8_t>(most < kMostShards ? most : kMostShards);
  patience_ = options.patience;
  set_pace(0);
  hot_.number = enter_pool(this);
  return CUDA_SUCCESS;
}

void Segments::close() {
  if (!open_) return;
  open_ = false;
  leave_pool(hot_.number);
  const Current current(driver_, context_);
  for (Pages& pages : pages_) pages.close();
  streams_.close();
  for (ThreadCache* cache = first_cache(); cache != nullptr;) {
    ThreadCache* next = cache->next;
    munmap(cache, sizeof(ThreadCache));
    cache = next;
  }
  caches_.store(nullptr, std::memory_order_relaxed);
}

void Segments::context_gone() {
  context_ = nullptr;
  streams_.context_gone();
}

bool Segments::contains(CUdeviceptr address) const {
  for (const Pages& pages : pages_) {
    if (address - pages.base() < pages.span()) return true;
  }
  return false;
}

void Segments::set_limit(std::uint64_t bytes) {
  holding_.set_limit(bytes);
  if (holding_.bytes() > bytes) (void)trim(bytes);
}

SegmentsInfo Segments::info() {
  const Locked hold(lock_);
  std::uint64_t cached = 0;
  tell_all();
  SegmentsInfo info{};
  info.limit = holding_.limit();
  info.in_use = static_cast<std::uint64_t>(counters_.live_bytes.load(std::memory_order_relaxed));
  info.peak_in_use =
      static_cast<std::uint64_t>(counters_.peak_live_bytes.load(std::memory_order_relaxed));
  info.reserved = holding_.bytes();
  info.peak_reserved = holding_.peak();
  for_each_space([&](const arena::Space& space) {
    info.free += space.free_bytes();
    const std::uint64_t largest = space.largest_free();
    if (largest > info.largest_free) info.largest_free = largest;
    space.for_each([&](const arena::Node& node) {
      if (node.kind == arena::NodeKind::kLive) cached += node.bytes;
    });
  });
  info.cached = cached > info.in_use ? cached - info.in_use : 0;
  info.live_blocks =
      static_cast<std::uint64_t>(counters_.live_blocks.load(std::memory_order_relaxed));
  info.allocations = counters_.allocations.load(std::memory_order_relaxed);
  info.failures = counters_.failures.load(std::memory_order_relaxed);
  info.largest_request = counters_.largest_request.load(std::memory_order_relaxed);
  for (std::uint8_t s = 0; s < shards(); ++s) info.shards += shards_[s].threads > 0 ? 1 : 0;
  info.pages_backed = counters_.pages_backed.load(std::memory_order_relaxed);
  return info;
}

void Segments::reset_peaks() {
  const Locked hold(lock_);
  tell_all();
  counters_.peak_live_bytes.store(counters_.live_bytes.load(std::memory_order_relaxed),
                                  std::memory_order_relaxed);
  holding_.reset_peak();
}

}  // namespace vram::pool
