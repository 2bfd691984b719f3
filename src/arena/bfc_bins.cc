#include "arena/bfc_bins.h"

#include <algorithm>
#include <bit>

namespace vram::arena {

namespace {

// Bijective, and without order in its input: neighbouring slots get unrelated priorities.
std::uint32_t priority(ChunkSlot slot) {
  std::uint32_t x = slot;
  x = (x ^ (x >> 16)) * 0x7feb352dU;
  x = (x ^ (x >> 15)) * 0x846ca68bU;
  return x ^ (x >> 16);
}

}  // namespace

int bfc_bin_of(std::uint64_t bytes) {
  const std::uint64_t granules = std::max(bytes, kBfcGranule) / kBfcGranule;
  return std::min(kBfcBins - 1, static_cast<int>(std::bit_width(granules)) - 1);
}

bool BfcBins::before(ChunkSlot a, ChunkSlot b) const {
  const Chunk& one = chunks_[a];
  const Chunk& other = chunks_[b];
  return one.size != other.size ? one.size < other.size : one.address < other.address;
}

void BfcBins::insert(ChunkSlot slot) {
  Chunk& chunk = chunks_[slot];
  chunk.bin = bfc_bin_of(chunk.size);
  ChunkSlot* link = &roots_[static_cast<std::size_t>(chunk.bin)];
  while (*link != kNoChunk && priority(*link) > priority(slot)) {
    link = before(slot, *link) ? &chunks_[*link].left : &chunks_[*link].right;
  }
  // What hangs here becomes two trees, below and above the new chunk.
  ChunkSlot node = *link;
  ChunkSlot* below = &chunk.left;
  ChunkSlot* above = &chunk.right;
  while (node != kNoChunk) {
    if (before(node, slot)) {
      *below = node;
      below = &chunks_[node].right;
      node = *below;
    } else {
      *above = node;
      above = &chunks_[node].left;
      node = *above;
    }
  }
  *below = kNoChunk;
  *above = kNoChunk;
  *link = slot;
}

void BfcBins::remove(ChunkSlot slot) {
  Chunk& chunk = chunks_[slot];
  ChunkSlot* link = &roots_[static_cast<std::size_t>(chunk.bin)];
  while (*link != slot) {
    link = before(slot, *link) ? &chunks_[*link].left : &chunks_[*link].right;
  }
  ChunkSlot below = chunk.left;
  ChunkSlot above = chunk.right;
  while (below != kNoChunk && above != kNoChunk) {
    if (priority(below) > priority(above)) {
      *link = below;
      link = &chunks_[below].right;
      below = *link;
    } else {
      *link = above;
      link = &chunks_[above].left;
      above = *link;
    }
  }
  *link = below != kNoChunk ? below : above;
  chunk.bin = kNoBin;
}

ChunkSlot BfcBins::lower_bound(int bin, std::uint64_t size, std::uint64_t address) const {
  ChunkSlot found = kNoChunk;
  ChunkSlot node = roots_[static_cast<std::size_t>(bin)];
  while (node != kNoChunk) {
    const Chunk& chunk = chunks_[node];
    if (chunk.size < size || (chunk.size == size && chunk.address < address)) {
      node = chunk.right;
    } else {
      found = node;
      node = chunk.left;
    }
  }
  return found;
}

ChunkSlot BfcBins::first_in(int bin) const { return lower_bound(bin, 0, 0); }

ChunkSlot BfcBins::first_from(int bin) const {
  while (bin < kBfcBins && !has(bin)) ++bin;
  return bin < kBfcBins ? first_in(bin) : kNoChunk;
}

ChunkSlot BfcBins::first_of(std::uint64_t bytes) const {
  const int bin = bfc_bin_of(bytes);
  const ChunkSlot found = lower_bound(bin, bytes, 0);
  return found != kNoChunk ? found : first_from(bin + 1);
}

ChunkSlot BfcBins::after(ChunkSlot slot) const {
  const Chunk& chunk = chunks_[slot];
  const ChunkSlot found = lower_bound(chunk.bin, chunk.size, chunk.address + 1);
  return found != kNoChunk ? found : first_from(chunk.bin + 1);
}

ChunkSlot BfcBins::largest() const {
  int bin = kBfcBins - 1;
  while (bin >= 0 && !has(bin)) --bin;
  if (bin < 0) return kNoChunk;
  ChunkSlot node = roots_[static_cast<std::size_t>(bin)];
  while (chunks_[node].right != kNoChunk) node = chunks_[node].right;
  return node;
}

}  // namespace vram::arena
