#pragma once

// A source of regions that is arithmetic only, with the faults and habits of real ones.

#include <algorithm>
#include <cstdint>
#include <optional>
#include <vector>

#include "arena/region_source.h"

namespace vram::arena {

struct RegionHabits {
  enum class Place : std::uint8_t { kUpwards, kDownwards };
  Place place = Place::kUpwards;
  bool coalescing = false;
  std::uint64_t base = std::uint64_t{1} << 40;
  std::uint64_t gap = 0;                          // bytes between two regions
  std::uint64_t grain = 256;                      // what is granted is rounded up to it, bytes
  std::uint64_t largest = ~std::uint64_t{0};      // a request above it is refused, bytes
  std::uint64_t budget = std::uint64_t{1} << 60;  // all regions together, bytes
  std::uint64_t refuse_every = 0;                 // the n-th request each time; 0: none
};

class PretendRegions final : public RegionSource {
 public:
  explicit PretendRegions(const RegionHabits& habits) : habits_(habits) {}

  std::optional<Range> allocate(std::uint64_t alignment, std::uint64_t bytes) override {
    last_alignment = alignment;
    asked.push_back(bytes);
    if (asked.size() > kRemembered) asked.erase(asked.begin());
    ++requests_;
    if (habits_.refuse_every != 0 && requests_ % habits_.refuse_every == 0) return std::nullopt;
    const std::uint64_t size = (bytes + habits_.grain - 1) / habits_.grain * habits_.grain;
    if (bytes > habits_.largest || held + size > habits_.budget) return std::nullopt;
    const Range range{place(size), size};
    const auto after = std::find_if(ranges_.begin(), ranges_.end(), [&](const Range& other) {
      return other.address > range.address;
    });
    ranges_.insert(after, range);
    held += size;
    ++granted;
    return range;
  }

  void free(Range range) override {
    std::uint64_t found = 0;
    std::erase_if(ranges_, [&](const Range& held_one) {
      const bool inside = held_one.address >= range.address &&
                          held_one.address + held_one.bytes <= range.address + range.bytes;
      if (inside) found += held_one.bytes;
      return inside;
    });
    if (found != range.bytes) ++wrong_frees;
    held -= found;
    ++freed;
  }

  bool supports_coalescing() const override { return habits_.coalescing; }

  RegionHabits& habits() { return habits_; }

  std::uint64_t held = 0;  // bytes
  std::uint64_t granted = 0;
  std::uint64_t freed = 0;
  std::uint64_t wrong_frees = 0;  // of what was never granted
  std::uint64_t last_alignment = 0;
  std::vector<std::uint64_t> asked;  // the latest requests, bytes

 private:
  static constexpr std::size_t kRemembered = 512;

  std::uint64_t place(std::uint64_t size) const {
    if (habits_.place == RegionHabits::Place::kDownwards) {
      const std::uint64_t lowest = ranges_.empty() ? habits_.base : ranges_.front().address;
      return lowest - size - habits_.gap;
    }
    std::uint64_t at = habits_.base;
    for (const Range& range : ranges_) {
      if (range.address >= at + size + habits_.gap) break;
      at = range.address + range.bytes + habits_.gap;
    }
    return at;
  }

  RegionHabits habits_;
  std::vector<Range> ranges_;  // by address
  std::uint64_t requests_ = 0;
};

}  // namespace vram::arena
