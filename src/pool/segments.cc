#include "pool/segments.h"

#include <sys/mman.h>

#include "pool/current.h"
#include "pool/now.h"

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

}  // namespace

// Fewer addresses where the process may not have many, and the same for each zone; with less than
// a card's, a block may be refused that the card would still hold.
CUresult Segments::open_zones(CUdevice device, std::uint64_t card) {
  CUresult result = CUDA_ERROR_OUT_OF_MEMORY;
  for (std::uint64_t eighths = 8 * kSpanOfCards; eighths > 0; eighths /= 2) {
    const std::uint64_t span = round_up(card / 8 * eighths, kLargestPage);
    result = CUDA_SUCCESS;
    for (std::uint8_t i = 0; i < kZones && result == CUDA_SUCCESS; ++i) {
      result = zones_[i].pages.open(driver_, &holding_, device, span, kShapes[i].page);
    }
    if (result == CUDA_SUCCESS) break;
    for (Zone& zone : zones_) zone.pages.close();
  }
  for (std::uint8_t i = 0; i < kZones && result == CUDA_SUCCESS; ++i) {
    Zone& zone = zones_[i];
    hot_.base[i] = zone.pages.base();
    if (!zone.space.open(&nodes_, i, zone.pages.span(), kShapes[i].page)) {
      result = CUDA_ERROR_OUT_OF_MEMORY;
    }
  }
  return result;
}

CUresult Segments::open(const DriverCalls& driver, const SegmentsOptions& options) {
  driver_ = driver;
  context_ = options.context;
  opened_us_ = now_us();
  holding_.set_grant(options.grant);
  holding_.set_limit(options.limit);
  const Current current(driver_, context_);
  std::size_t total = 0;
  CUresult result = driver_.device_total(&total, options.device);
  if (result != CUDA_SUCCESS) return result;
  if (!nodes_.open() || !table_.open() || !shelves_.open() || !uses_.reserve(1 << 20)) {
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
  set_pace(0);
  hot_.number = enter_pool(this);
  return CUDA_SUCCESS;
}

void Segments::close() {
  if (!open_) return;
  open_ = false;
  leave_pool(hot_.number);
  const Current current(driver_, context_);
  for (Zone& zone : zones_) zone.pages.close();
  streams_.close();
  for (ThreadCache* cache = first_cache(); cache != nullptr;) {
    ThreadCache* next = cache->next;
    munmap(cache, sizeof(ThreadCache));
    cache = next;
  }
  caches_.store(nullptr, std::memory_order_relaxed);
}

Segments::Zone& Segments::zone_for(std::uint64_t bytes) {
  std::uint8_t i = 0;
  while (bytes > kShapes[i].largest_block) ++i;
  return zones_[i];
}

void Segments::context_gone() {
  context_ = nullptr;
  streams_.context_gone();
}

bool Segments::contains(CUdeviceptr address) const {
  for (const Zone& zone : zones_) {
    if (address - zone.pages.base() < zone.pages.span()) return true;
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
  for (const Zone& zone : zones_) {
    info.free += zone.space.free_bytes();
    const std::uint64_t largest = zone.space.largest_free();
    if (largest > info.largest_free) info.largest_free = largest;
    zone.space.for_each([&](const arena::Node& node) {
      if (node.kind == arena::NodeKind::kLive) cached += node.bytes;
    });
  }
  info.cached = cached > info.in_use ? cached - info.in_use : 0;
  info.live_blocks =
      static_cast<std::uint64_t>(counters_.live_blocks.load(std::memory_order_relaxed));
  info.allocations = counters_.allocations.load(std::memory_order_relaxed);
  info.failures = counters_.failures.load(std::memory_order_relaxed);
  info.largest_request = counters_.largest_request.load(std::memory_order_relaxed);
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
