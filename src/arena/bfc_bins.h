#pragma once

// The free chunks by size: 21 bins, each ordered by size, then by address, so that walking the bins
// upwards meets every free chunk in that order.
//
// A bin is a tree threaded through the chunks themselves, balanced by a priority that is a function
// of the slot: inserting and removing take O(log n) and allocate nothing.
//
// Threads: none of its own.

#include <array>
#include <cstdint>

#include "arena/bfc_chunk.h"

namespace vram::arena {

constexpr std::uint64_t kBfcGranule = 256;  // bytes; every size and address is a multiple of it
constexpr int kBfcBins = 21;                // the last one holds 256 MiB and above

constexpr std::uint64_t bfc_bin_lower_bound(int bin) { return kBfcGranule << bin; }
[[nodiscard]] int bfc_bin_of(std::uint64_t bytes);

class BfcBins {
 public:
  explicit BfcBins(ChunkStore& chunks) : chunks_(chunks) { roots_.fill(kNoChunk); }

  void insert(ChunkSlot slot);
  void remove(ChunkSlot slot);

  // The smallest chunk of at least `bytes`, the lowest address among equals; then the one after it.
  [[nodiscard]] ChunkSlot first_of(std::uint64_t bytes) const;
  [[nodiscard]] ChunkSlot after(ChunkSlot slot) const;

  // The first of one bin, whatever its size.
  [[nodiscard]] ChunkSlot first_in(int bin) const;
  [[nodiscard]] ChunkSlot largest() const;

 private:
  // The first chunk of `bin` at or after a size and an address.
  ChunkSlot lower_bound(int bin, std::uint64_t size, std::uint64_t address) const;
  // The first of the bins from `bin` upwards.
  ChunkSlot first_from(int bin) const;
  bool before(ChunkSlot a, ChunkSlot b) const;
  bool has(int bin) const { return roots_[static_cast<std::size_t>(bin)] != kNoChunk; }

  ChunkStore& chunks_;
  std::array<ChunkSlot, kBfcBins> roots_;
};

}  // namespace vram::arena
