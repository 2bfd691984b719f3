#include "arena/bfc.h"

#include <algorithm>
#include <bit>

namespace vram::arena {

namespace {

// Far above any device's memory, far enough below 2^64 that sums and doublings cannot wrap around.
constexpr std::uint64_t kLargest = std::uint64_t{1} << 62;
constexpr std::uint64_t kFirstRegion = 2 << 20;
constexpr std::uint64_t kMostWaste = 128 << 20;

std::uint64_t rounded_up(std::uint64_t bytes) {
  return (bytes + kBfcGranule - 1) / kBfcGranule * kBfcGranule;
}

BfcOptions within_range(BfcOptions options) {
  options.limit = std::min(options.limit, kLargest);
  return options;
}

std::uint64_t most_waste(const BfcOptions& options) {
  if (!(options.internal_fragmentation_fraction > 0)) return kMostWaste;
  const double bytes = options.internal_fragmentation_fraction * static_cast<double>(options.limit);
  return bytes < static_cast<double>(kLargest) ? static_cast<std::uint64_t>(bytes) : kLargest;
}

// Bytes from `address` to the next multiple of `alignment`, a power of two.
std::uint64_t padding(std::uint64_t address, std::uint64_t alignment) {
  return -address & (alignment - 1);
}

}  // namespace

Bfc::Bfc(RegionSource& source, const BfcOptions& options)
    : source_(source),
      options_(within_range(options)),
      most_waste_(most_waste(options_)),
      next_region_(
          rounded_up(options_.growth ? std::min(options_.limit, kFirstRegion) : options_.limit)),
      bins_(chunks_) {
  stats_.bytes_limit = options_.limit;
}

Bfc::~Bfc() {
  for (const Region& region : regions_.all()) source_.free(region.range);
}

Bfc::Want Bfc::want_of(const BfcRequest& request) {
  return {request.bytes, rounded_up(request.bytes), std::max(request.alignment, kBfcGranule),
          request.freed_before, request.largest_region / kBfcGranule * kBfcGranule};
}

base::Expected<std::uint64_t, BfcError> Bfc::allocate(const BfcRequest& request) {
  if (request.bytes == 0) return BfcError::kZeroBytes;
  if (!std::has_single_bit(request.alignment)) return BfcError::kBadAlignment;
  if (request.bytes > kLargest) return BfcError::kOutOfMemory;
  const Want want = want_of(request);
  const ChunkSlot slot = obtain(want);
  if (slot == kNoChunk) return BfcError::kOutOfMemory;

  Chunk& chunk = chunks_[slot];
  chunk.requested = want.bytes;
  chunk.id = next_id_++;
  index_.insert(chunk.address, slot);
  ++stats_.num_allocs;
  stats_.bytes_in_use += chunk.size;
  stats_.peak_bytes_in_use = std::max(stats_.peak_bytes_in_use, stats_.bytes_in_use);
  stats_.largest_alloc_size = std::max(stats_.largest_alloc_size, chunk.size);
  return chunk.address;
}

// The order is the original's: more memory before chunks that are not safe yet, and regions are
// given back last, because taking them again costs a call to the driver.
ChunkSlot Bfc::obtain(const Want& want) {
  merge_safe();
  ChunkSlot slot = take(want);
  if (slot == kNoChunk && extend(want)) slot = take(want);
  if (slot == kNoChunk && want.freed_before == 0 && merge_until(want.rounded)) slot = take(want);
  if (slot == kNoChunk && collect(want.rounded) && extend(want)) slot = take(want);
  return slot;
}

// A free chunk cut to size, out of its bin.
ChunkSlot Bfc::take(const Want& want) {
  const ChunkSlot slot = first_fitting(want);
  if (slot == kNoChunk) return kNoChunk;
  bins_.remove(slot);
  return carve(slot, want);
}

ChunkSlot Bfc::first_fitting(const Want& want) const {
  for (ChunkSlot slot = bins_.first_of(want.rounded); slot != kNoChunk; slot = bins_.after(slot)) {
    const Chunk& chunk = chunks_[slot];
    if (want.freed_before > 0 && want.freed_before < chunk.freed_at) continue;
    if (chunk.size - want.rounded < padding(chunk.address, want.alignment)) continue;
    return slot;
  }
  return kNoChunk;
}

ChunkSlot Bfc::carve(ChunkSlot slot, const Want& want) {
  const std::uint64_t before = padding(chunks_[slot].address, want.alignment);
  if (before > 0) {
    split(slot, before);
    const ChunkSlot aligned = chunks_[slot].next;
    bins_.remove(aligned);
    bins_.insert(slot);
    slot = aligned;
  }
  const std::uint64_t left = chunks_[slot].size - want.rounded;
  if (left > 0 && (left >= want.rounded || left >= most_waste_)) split(slot, want.rounded);
  return slot;
}

// The chunk keeps its first `bytes`; the rest becomes a free chunk of its own, in its bin.
void Bfc::split(ChunkSlot slot, std::uint64_t bytes) {
  const ChunkSlot rest_slot = chunks_.take();
  Chunk& chunk = chunks_[slot];
  Chunk& rest = chunks_[rest_slot];
  rest.address = chunk.address + bytes;
  rest.size = chunk.size - bytes;
  rest.freed_at = chunk.freed_at;
  rest.previous = slot;
  rest.next = chunk.next;
  chunk.size = bytes;
  chunk.next = rest_slot;
  if (rest.next != kNoChunk) chunks_[rest.next].previous = rest_slot;
  bins_.insert(rest_slot);
}

bool Bfc::free(std::uint64_t address) {
  const ChunkSlot slot = index_.find(address);
  if (slot == kNoChunk) return false;
  index_.erase(address);
  Chunk& chunk = chunks_[slot];
  chunk.id = 0;
  stats_.bytes_in_use -= chunk.size;
  if (counter_ == nullptr) {
    chunk.freed_at = 0;
    bins_.insert(coalesce(slot, Held::kStaysApart));
  } else {
    chunk.freed_at = counter_->fetch_add(1) + 1;
    bins_.insert(slot);
    held_back_.push_back(slot);
  }
  return true;
}

// Merges a free chunk that is in no bin with its free neighbours, first the next one, and returns
// what became of it, in no bin. The chunk itself is safe, or else everything merges.
ChunkSlot Bfc::coalesce(ChunkSlot slot, Held held) {
  const auto merges = [&](ChunkSlot other) {
    return other != kNoChunk && !chunks_[other].in_use() &&
           (held == Held::kMerges || chunks_[other].freed_at == 0);
  };
  if (const ChunkSlot next = chunks_[slot].next; merges(next)) {
    bins_.remove(next);
    merge_next_into(slot);
  }
  const ChunkSlot previous = chunks_[slot].previous;
  if (!merges(previous)) return slot;
  bins_.remove(previous);
  merge_next_into(previous);
  return previous;
}

void Bfc::merge_next_into(ChunkSlot slot) {
  Chunk& chunk = chunks_[slot];
  const ChunkSlot dropped = chunk.next;
  const Chunk& next = chunks_[dropped];
  chunk.size += next.size;
  chunk.freed_at = std::max(chunk.freed_at, next.freed_at);
  chunk.next = next.next;
  if (chunk.next != kNoChunk) chunks_[chunk.next].previous = slot;
  chunks_.drop(dropped);
}

std::optional<BfcAllocation> Bfc::find(std::uint64_t address) const {
  const ChunkSlot slot = index_.find(address);
  if (slot == kNoChunk) return std::nullopt;
  const Chunk& chunk = chunks_[slot];
  return BfcAllocation{chunk.requested, chunk.size, chunk.id};
}

BfcStats Bfc::stats() const {
  BfcStats stats = stats_;
  const ChunkSlot largest = bins_.largest();
  stats.largest_free_block_bytes = largest == kNoChunk ? 0 : chunks_[largest].size;
  return stats;
}

void Bfc::clear_stats() {
  stats_.num_allocs = 0;
  stats_.peak_bytes_in_use = stats_.bytes_in_use;
  stats_.largest_alloc_size = 0;
}

double Bfc::fragmentation() const {
  const BfcStats now = stats();
  const std::uint64_t free = now.pool_bytes - now.bytes_in_use;
  if (free == 0) return 0;
  return static_cast<double>(free - now.largest_free_block_bytes) / static_cast<double>(free);
}

}  // namespace vram::arena
