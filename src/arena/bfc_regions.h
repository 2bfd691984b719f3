#pragma once

// The regions of an arena, by address, and which allocation begins at which address.
//
// The latter is a hash table, not an array with an entry for each 256 bytes: of a pool of 140 GiB
// that array would take 4 GiB of host memory.
//
// Threads: none of their own.

#include <cstdint>
#include <vector>

#include "arena/bfc_chunk.h"
#include "arena/region_source.h"

namespace vram::arena {

class ChunkIndex {
 public:
  [[nodiscard]] ChunkSlot find(std::uint64_t address) const;
  // Nothing stands at the address yet.
  void insert(std::uint64_t address, ChunkSlot slot);
  // Something stands at the address.
  void erase(std::uint64_t address);

 private:
  struct Entry {
    std::uint64_t address = 0;
    ChunkSlot slot = kNoChunk;  // kNoChunk: the entry is empty
  };
  std::size_t home(std::uint64_t address) const;
  void place(Entry entry);
  void grow();

  std::vector<Entry> entries_;  // a power of two, at most half full, probed linearly
  std::size_t used_ = 0;
};

struct Region {
  Range range;
  ChunkSlot first = kNoChunk;  // its chunk at the lowest address, for good

  std::uint64_t end() const { return range.address + range.bytes; }
};

// Sorted by address; ranges do not overlap.
class RegionList {
 public:
  void add(Region region);

  // The region that ends where `address` begins, or null.
  [[nodiscard]] Region* ending_at(std::uint64_t address);

  const std::vector<Region>& all() const { return regions_; }
  std::vector<Region>& all() { return regions_; }

 private:
  std::vector<Region>::iterator first_ending_after(std::uint64_t address);

  std::vector<Region> regions_;
};

}  // namespace vram::arena
