#pragma once

// Random operations on an arena, the same for the same seed whatever the machine, the compiler or
// the allocator that carries them out: the next operation depends on the seed and on the outcomes
// only. What an allocator did is condensed into a digest, so that two of them can be compared
// without being in one program.

#include <algorithm>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <vector>

#include "arena/bfc.h"
#include "arena/pretend_regions_for_test.h"

namespace vram::arena {

class Dice {  // splitmix64
 public:
  explicit Dice(std::uint64_t seed) : state_(seed) {}

  std::uint64_t roll() {
    std::uint64_t x = state_ += 0x9e3779b97f4a7c15U;
    x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9U;
    x = (x ^ (x >> 27)) * 0x94d049bb133111ebU;
    return x ^ (x >> 31);
  }
  std::uint64_t below(std::uint64_t n) { return roll() % n; }
  std::uint64_t between(std::uint64_t low, std::uint64_t high) {
    return low + below(high - low + 1);
  }
  bool one_in(std::uint64_t n) { return below(n) == 0; }

 private:
  std::uint64_t state_;
};

struct TraceConfig {
  enum class Sizes : std::uint8_t { kSmall, kAnyMagnitude, kFewKinds, kLarge, kNearGranule };
  enum class Frees : std::uint8_t { kAny, kNewest, kOldest };

  BfcOptions options;
  RegionHabits habits;
  Sizes sizes = Sizes::kSmall;
  Frees frees = Frees::kAny;
  std::uint64_t most_live = 0;  // allocations
  std::uint64_t target = 0;     // bytes in use about which the trace hovers
  bool held_back = false;       // frees carry a count
  bool aligned = false;         // alignments beyond the granule

  static TraceConfig of(std::uint64_t seed);
};

inline TraceConfig TraceConfig::of(std::uint64_t seed) {
  Dice dice(seed * 0x51ed270b35ae2d95U + 1);
  TraceConfig config;
  constexpr std::uint64_t kMiB = 1 << 20;
  const std::uint64_t limits[] = {dice.between(1, 64) * 4096,
                                  dice.between(1, 2048) * 1000,
                                  dice.between(1, 16) * kMiB,
                                  dice.between(16, 128) * kMiB,
                                  dice.between(16, 128) * kMiB + dice.below(kMiB),
                                  dice.between(128, 1024) * kMiB,
                                  dice.one_in(4) ? dice.between(1024, 4096) * kMiB : 512 * kMiB};
  config.options.limit = limits[dice.below(7)];
  config.options.growth = !dice.one_in(3);
  config.options.garbage_collection = dice.one_in(2);
  const double fractions[] = {0, 0, 0, 0.01, 0.05, 0.25, 0.5, 2};
  config.options.internal_fragmentation_fraction = fractions[dice.below(8)];

  RegionHabits& habits = config.habits;
  if (dice.one_in(4)) {
    // A limit of whole grains, or else nearly every trace would end above it.
    habits.grain = std::uint64_t{1} << dice.between(9, 21);
    config.options.limit = (config.options.limit / habits.grain + 4) * habits.grain;
  }
  const std::uint64_t limit = config.options.limit;
  habits.place = dice.one_in(4) ? RegionHabits::Place::kDownwards : RegionHabits::Place::kUpwards;
  habits.coalescing = dice.one_in(2);
  habits.base += dice.below(64) * 256;
  habits.gap = dice.one_in(2) ? 0 : dice.between(1, 64) * 256;
  if (dice.one_in(4)) habits.largest = limit / dice.between(2, 16);
  if (dice.one_in(4))
    habits.budget = std::max<std::uint64_t>(limit / 100 * dice.between(30, 99), 1);
  if (dice.one_in(6)) habits.refuse_every = dice.between(2, 9);

  config.sizes = static_cast<Sizes>(dice.below(5));
  config.frees = static_cast<Frees>(dice.below(3));
  const std::uint64_t counts[] = {16, 128, 512, 2048};
  config.most_live = counts[dice.below(4)];
  config.target = limit / 100 * dice.between(30, 120) + 1;
  config.held_back = dice.one_in(3);
  config.aligned = dice.one_in(3);
  // Together they make short traces: see `record`.
  if (config.held_back && !dice.one_in(8)) config.options.garbage_collection = false;
  return config;
}

struct Operation {
  enum class Kind : std::uint8_t { kAllocate, kFree, kSetFrontier, kClearStats, kRestart };
  Kind kind = Kind::kAllocate;
  BfcRequest request;         // kAllocate
  std::uint64_t address = 0;  // kFree
  std::uint64_t count = 0;    // kSetFrontier
};

struct Outcome {
  std::uint64_t address = 0;  // 0: refused, or not an allocation
  BfcAllocation allocation;
  BfcStats stats;
  std::uint64_t granted = 0;  // regions since the arena was made
  std::uint64_t freed = 0;

  bool operator==(const Outcome& other) const {
    return address == other.address && allocation.requested == other.allocation.requested &&
           allocation.allocated == other.allocation.allocated &&
           allocation.id == other.allocation.id && stats == other.stats &&
           granted == other.granted && freed == other.freed;
  }
};

class Trace {
 public:
  explicit Trace(std::uint64_t seed) : config_(TraceConfig::of(seed)), dice_(seed) {}

  const TraceConfig& config() const { return config_; }
  std::uint64_t digest() const { return digest_; }

  Operation next() {
    if (restart_) return of_kind(Operation::Kind::kRestart);
    if (config_.held_back && dice_.one_in(16)) return set_frontier();
    if (dice_.one_in(1024)) return of_kind(Operation::Kind::kClearStats);
    if (dice_.one_in(2048)) freeing_ = live_.size();
    const bool full = live_.size() >= config_.most_live;
    const bool above = in_use_ > config_.target;
    const bool frees = freeing_ > 0 || full || dice_.below(100) < (above ? 70U : 40U);
    if (frees && !live_.empty()) return free_one();
    return allocate();
  }

  void record(const Operation& operation, const Outcome& outcome) {
    const BfcStats& stats = outcome.stats;
    in_use_ = stats.bytes_in_use;
    if (operation.kind == Operation::Kind::kAllocate && outcome.address != 0) {
      live_.push_back(outcome.address);
    }
    if (operation.kind == Operation::Kind::kRestart) {
      live_.clear();
      count_ = 0;
    }
    // Where the original is not defined, or its next region would come near 2^64 bytes.
    restart_ = outcome.granted >= 24 || (config_.held_back && outcome.freed > 0) ||
               stats.pool_bytes > stats.bytes_limit;
    for (const std::uint64_t value :
         {outcome.address, outcome.allocation.requested, outcome.allocation.allocated,
          outcome.allocation.id, stats.num_allocs, stats.bytes_in_use, stats.peak_bytes_in_use,
          stats.largest_alloc_size, stats.bytes_limit, stats.bytes_reserved, stats.pool_bytes,
          stats.peak_pool_bytes, stats.largest_free_block_bytes, outcome.granted, outcome.freed}) {
      digest_ = Dice(digest_ ^ value).roll();
    }
  }

 private:
  static Operation of_kind(Operation::Kind kind) {
    Operation operation;
    operation.kind = kind;
    return operation;
  }

  Operation allocate() {
    Operation operation;
    operation.request.bytes = dice_.one_in(512) ? 0 : size();
    if (config_.aligned) operation.request.alignment = std::uint64_t{1} << dice_.below(18);
    if (config_.held_back && dice_.one_in(2)) {
      operation.request.freed_before = count_ - std::min(count_, dice_.below(16));
    }
    return operation;
  }

  Operation free_one() {
    if (freeing_ > 0) --freeing_;
    std::size_t at = live_.size() - 1;
    if (config_.frees == TraceConfig::Frees::kAny) at = dice_.below(live_.size());
    if (config_.frees == TraceConfig::Frees::kOldest) {
      at = dice_.below(std::min<std::size_t>(4, live_.size()));
    }
    Operation operation = of_kind(Operation::Kind::kFree);
    operation.address = live_[at];
    if (config_.frees == TraceConfig::Frees::kAny) {
      live_[at] = live_.back();
      live_.pop_back();
    } else {
      live_.erase(live_.begin() + static_cast<std::ptrdiff_t>(at));
    }
    ++count_;
    return operation;
  }

  Operation set_frontier() {
    Operation operation = of_kind(Operation::Kind::kSetFrontier);
    operation.count = count_ - std::min(count_, dice_.below(32)) + dice_.below(3);
    return operation;
  }

  std::uint64_t size() {
    const std::uint64_t limit = config_.options.limit;
    switch (config_.sizes) {
      case TraceConfig::Sizes::kSmall:
        return dice_.between(1, 4096);
      case TraceConfig::Sizes::kAnyMagnitude: {
        std::uint64_t top = 256;
        while (top < limit && !dice_.one_in(8)) top *= 2;
        return dice_.between(1, top);
      }
      case TraceConfig::Sizes::kFewKinds:
        return (dice_.below(8) + 1) * (limit / 256 + 1) - dice_.below(2);
      case TraceConfig::Sizes::kLarge:
        return dice_.between(limit / 64 + 1, limit / (1 + dice_.below(8)) + 1);
      case TraceConfig::Sizes::kNearGranule:
        return dice_.between(1, 64) * 256 + dice_.below(3) - 1;
    }
    return 1;
  }

  TraceConfig config_;
  Dice dice_;
  std::vector<std::uint64_t> live_;  // addresses
  std::uint64_t in_use_ = 0;         // bytes
  std::uint64_t count_ = 0;          // frees since the arena was made
  std::size_t freeing_ = 0;          // a run of frees: how many are left
  bool restart_ = false;
  std::uint64_t digest_ = 0;
};

// Carries a trace out on Bfc.
class BfcActor {
 public:
  explicit BfcActor(const TraceConfig& config) : config_(config) { restart(); }

  Outcome apply(const Operation& operation) {
    Outcome outcome;
    switch (operation.kind) {
      case Operation::Kind::kAllocate:
        if (const auto address = bfc_->allocate(operation.request)) {
          outcome.address = *address;
          outcome.allocation = bfc_->find(*address).value_or(BfcAllocation{});
        }
        break;
      case Operation::Kind::kFree:
        outcome.address = bfc_->free(operation.address) ? operation.address : 0;
        break;
      case Operation::Kind::kSetFrontier:
        (void)bfc_->set_safe_frontier(operation.count);
        break;
      case Operation::Kind::kClearStats:
        bfc_->clear_stats();
        break;
      case Operation::Kind::kRestart:
        restart();
        break;
    }
    outcome.stats = bfc_->stats();
    outcome.granted = regions_->granted;
    outcome.freed = regions_->freed;
    return outcome;
  }

  const Bfc& bfc() const { return *bfc_; }
  const PretendRegions& regions() const { return *regions_; }

 private:
  void restart() {
    bfc_.reset();
    regions_.emplace(config_.habits);
    bfc_.emplace(*regions_, config_.options);
    counter_ = 0;
    if (config_.held_back) bfc_->set_timing_counter(&counter_);
  }

  const TraceConfig config_;
  std::atomic<std::uint64_t> counter_ = 0;
  std::optional<PretendRegions> regions_;
  std::optional<Bfc> bfc_;
};

}  // namespace vram::arena
