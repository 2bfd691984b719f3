#include "arena/bfc_regions.h"

#include <algorithm>
#include <utility>

namespace vram::arena {

namespace {

constexpr std::size_t kFirstEntries = 64;

}  // namespace

std::size_t ChunkIndex::home(std::uint64_t address) const {
  // The upper half of the product: the lower bits of an address are all zero.
  return static_cast<std::size_t>((address * 0x9e3779b97f4a7c15U) >> 32) & (entries_.size() - 1);
}

ChunkSlot ChunkIndex::find(std::uint64_t address) const {
  if (entries_.empty()) return kNoChunk;
  std::size_t at = home(address);
  while (entries_[at].slot != kNoChunk && entries_[at].address != address) {
    at = (at + 1) & (entries_.size() - 1);
  }
  return entries_[at].slot;
}

void ChunkIndex::place(Entry entry) {
  std::size_t at = home(entry.address);
  while (entries_[at].slot != kNoChunk) at = (at + 1) & (entries_.size() - 1);
  entries_[at] = entry;
}

void ChunkIndex::grow() {
  const std::size_t size = entries_.empty() ? kFirstEntries : entries_.size() * 2;
  const std::vector<Entry> old = std::exchange(entries_, std::vector<Entry>(size));
  for (const Entry& entry : old) {
    if (entry.slot != kNoChunk) place(entry);
  }
}

void ChunkIndex::insert(std::uint64_t address, ChunkSlot slot) {
  if ((used_ + 1) * 2 > entries_.size()) grow();
  place({address, slot});
  ++used_;
}

void ChunkIndex::erase(std::uint64_t address) {
  const std::size_t mask = entries_.size() - 1;
  std::size_t hole = home(address);
  while (entries_[hole].address != address || entries_[hole].slot == kNoChunk) {
    hole = (hole + 1) & mask;
  }
  // What was displaced by it moves up, so that no search ends early.
  for (std::size_t at = (hole + 1) & mask; entries_[at].slot != kNoChunk; at = (at + 1) & mask) {
    const std::size_t from_home = (at - home(entries_[at].address)) & mask;
    if (from_home < ((at - hole) & mask)) continue;
    entries_[hole] = entries_[at];
    hole = at;
  }
  entries_[hole].slot = kNoChunk;
  --used_;
}

std::vector<Region>::iterator RegionList::first_ending_after(std::uint64_t address) {
  return std::upper_bound(
      regions_.begin(), regions_.end(), address,
      [](std::uint64_t value, const Region& region) { return value < region.end(); });
}

void RegionList::add(Region region) {
  regions_.insert(first_ending_after(region.range.address), region);
}

Region* RegionList::ending_at(std::uint64_t address) {
  const auto after = first_ending_after(address);
  if (after == regions_.begin()) return nullptr;
  Region& before = *(after - 1);
  return before.end() == address ? &before : nullptr;
}

}  // namespace vram::arena
