#pragma once

// A chunk is a piece of a region, wholly in use or wholly free. The chunks of a region lie side by
// side and cover it; `previous` and `next` are the neighbours by address.

#include <cstddef>
#include <cstdint>
#include <vector>

namespace vram::arena {

// The index of a chunk in its store: it stays valid while the store grows, unlike an address.
using ChunkSlot = std::uint32_t;
constexpr ChunkSlot kNoChunk = ~ChunkSlot{0};
constexpr int kNoBin = -1;

struct Chunk {
  std::uint64_t address = 0;
  std::uint64_t size = 0;       // bytes
  std::uint64_t requested = 0;  // bytes the caller asked for; of no meaning when free
  std::uint64_t id = 0;         // of the allocation; 0: free
  std::uint64_t freed_at = 0;   // count at which it was freed; 0: anybody may have it
  ChunkSlot previous = kNoChunk;
  ChunkSlot next = kNoChunk;
  ChunkSlot left = kNoChunk;  // in the tree of its bin, as is `right`
  ChunkSlot right = kNoChunk;
  int bin = kNoBin;  // set exactly while it stands in a bin

  bool in_use() const { return id != 0; }
};

// Slots are handed out again last in, first out: the list of chunks held back by a count may name a
// slot that was dropped since, and takes what stands there now in its place, as the original does.
class ChunkStore {
 public:
  Chunk& operator[](ChunkSlot slot) { return chunks_[slot]; }
  const Chunk& operator[](ChunkSlot slot) const { return chunks_[slot]; }

  // May move every chunk.
  [[nodiscard]] ChunkSlot take() {
    if (unused_ == kNoChunk) {
      chunks_.emplace_back();
      return static_cast<ChunkSlot>(chunks_.size() - 1);
    }
    const ChunkSlot slot = unused_;
    unused_ = chunks_[slot].next;
    return slot;
  }

  void drop(ChunkSlot slot) {
    Chunk& chunk = chunks_[slot];
    chunk.id = 0;
    chunk.bin = kNoBin;
    chunk.next = unused_;
    unused_ = slot;
  }

 private:
  std::vector<Chunk> chunks_;
  ChunkSlot unused_ = kNoChunk;
};

}  // namespace vram::arena
