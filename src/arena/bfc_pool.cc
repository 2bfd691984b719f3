// How the pool grows by regions and gives them back.

#include <algorithm>

#include "arena/bfc.h"

namespace vram::arena {

namespace {

// The next region stops doubling here: the limit is below, and beyond it the size would wrap
// around.
constexpr std::uint64_t kLargestRegion = std::uint64_t{1} << 62;

constexpr std::uint64_t kSmallestRegion = std::uint64_t{2} << 20;

// How much of a size a refused request keeps, in the original's arithmetic: a float holds 24 bits,
// so that large sizes come out a little off nine tenths, and the pool's size depends on it.
constexpr float kKept = 0.9F;

std::uint64_t backed_off(std::uint64_t bytes) {
  const auto kept = static_cast<std::uint64_t>(static_cast<float>(bytes) * kKept);
  const std::uint64_t rounded = (kept + kBfcGranule - 1) / kBfcGranule * kBfcGranule;
  return std::min(rounded, bytes - kBfcGranule);
}

bool usable(Range range, std::uint64_t bytes) {
  return range.bytes >= bytes && range.bytes % kBfcGranule == 0 && range.address % kBfcGranule == 0;
}

}  // namespace

std::uint64_t Bfc::unallocated() const {
  return options_.limit - std::min(options_.limit, stats_.pool_bytes);
}

bool Bfc::extend(const Want& want) {
  const std::uint64_t available = unallocated() / kBfcGranule * kBfcGranule;
  if (want.rounded > available) return false;
  const bool fits = want.rounded <= next_region_;
  while (want.rounded > next_region_) next_region_ *= 2;
  const std::uint64_t most = std::min(available, want.largest_region);
  const std::optional<Range> range = ask(want, std::min(next_region_, most));
  if (!range) return false;
  // A region made larger for this request was doubled already.
  if (fits && next_region_ < kLargestRegion) next_region_ *= 2;
  add_region(*range);
  return true;
}

std::optional<Range> Bfc::ask(const Want& want, std::uint64_t bytes) {
  while (bytes >= want.rounded) {
    if (const std::optional<Range> range = ask_once(want, bytes)) return range;
    bytes = backed_off(bytes);
  }
  return std::nullopt;
}

std::optional<Range> Bfc::ask_once(const Want& want, std::uint64_t bytes) {
  const std::optional<Range> range = source_.allocate(want.alignment, bytes);
  if (!range || usable(*range, bytes)) return range;
  source_.free(*range);
  return std::nullopt;
}

void Bfc::add_region(Range range) {
  stats_.pool_bytes += range.bytes;
  stats_.peak_pool_bytes = std::max(stats_.peak_pool_bytes, stats_.pool_bytes);
  const ChunkSlot slot = chunks_.take();
  Chunk& chunk = chunks_[slot];
  chunk.address = range.address;
  chunk.size = range.bytes;
  chunk.freed_at = 0;
  chunk.previous = kNoChunk;
  chunk.next = kNoChunk;
  Region* before = source_.supports_coalescing() ? regions_.ending_at(range.address) : nullptr;
  if (before == nullptr) {
    regions_.add({range, slot});
  } else {
    chunk.previous = last_of(*before);
    chunks_[chunk.previous].next = slot;
    before->range.bytes += range.bytes;
  }
  bins_.insert(coalesce(slot, Held::kStaysApart));
}

ChunkSlot Bfc::last_of(const Region& region) const {
  ChunkSlot slot = region.first;
  while (chunks_[slot].next != kNoChunk) slot = chunks_[slot].next;
  return slot;
}

void Bfc::set_limit(std::uint64_t bytes) {
  options_.limit = std::min(bytes, kLargestRegion);
  stats_.bytes_limit = options_.limit;
  // Of a limit of nothing no region follows by doubling.
  if (next_region_ == 0) next_region_ = kSmallestRegion;
}

std::uint64_t Bfc::trim(std::uint64_t keep) {
  const std::uint64_t before = stats_.pool_bytes;
  std::vector<Region>& regions = regions_.all();
  for (std::size_t i = regions.size(); i-- > 0 && stats_.pool_bytes > keep;) {
    if (!wholly_free(regions[i])) continue;
    give_back(regions[i]);
    regions.erase(regions.begin() + static_cast<std::ptrdiff_t>(i));
  }
  return before - stats_.pool_bytes;
}

std::uint64_t Bfc::region_for(const BfcRequest& request) const {
  const Want want = want_of(request);
  const std::uint64_t available = unallocated() / kBfcGranule * kBfcGranule;
  if (want.rounded > available || first_fitting(want) != kNoChunk) return 0;
  std::uint64_t region = next_region_;
  while (want.rounded > region) region *= 2;
  return std::min(region, available);
}

// Gives back the regions without an allocation, if with them the request could fit the limit.
bool Bfc::collect(std::uint64_t bytes) {
  if (!options_.garbage_collection) return false;
  std::uint64_t free = 0;
  for (const Region& region : regions_.all()) {
    if (wholly_free(region)) free += region.range.bytes;
  }
  if (free == 0 || bytes + stats_.pool_bytes > options_.limit + free) return false;
  std::erase_if(regions_.all(), [&](const Region& region) {
    if (!wholly_free(region)) return false;
    give_back(region);
    return true;
  });
  return true;
}

bool Bfc::wholly_free(const Region& region) const {
  ChunkSlot slot = region.first;
  while (slot != kNoChunk && !chunks_[slot].in_use()) slot = chunks_[slot].next;
  return slot == kNoChunk;
}

void Bfc::give_back(const Region& region) {
  for (ChunkSlot slot = region.first; slot != kNoChunk;) {
    const ChunkSlot next = chunks_[slot].next;
    bins_.remove(slot);
    chunks_.drop(slot);
    slot = next;
  }
  source_.free(region.range);
  stats_.pool_bytes -= region.range.bytes;
}

}  // namespace vram::arena
