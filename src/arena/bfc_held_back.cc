// Chunks freed at a count that work under way on the device may not have reached yet.
//
// The list of them is not tidied when a chunk leaves its bin otherwise, so that each entry is
// looked at anew: it counts only while the chunk in its slot is free.

#include <utility>
#include <vector>

#include "arena/bfc.h"

namespace vram::arena {

bool Bfc::set_safe_frontier(std::uint64_t count) {
  if (count <= safe_frontier_) return false;
  safe_frontier_ = count;
  return true;
}

// Releases and merges what the frontier has passed.
void Bfc::merge_safe() {
  if (held_back_.empty()) return;
  std::vector<ChunkSlot> safe;
  std::deque<ChunkSlot> still;
  for (const ChunkSlot slot : held_back_) {
    Chunk& chunk = chunks_[slot];
    if (chunk.bin == kNoBin) continue;
    if (chunk.freed_at >= safe_frontier_ && chunk.freed_at > 0) {
      still.push_back(slot);
    } else {
      chunk.freed_at = 0;
      safe.push_back(slot);
    }
  }
  held_back_.swap(still);
  for (const ChunkSlot slot : safe) {
    if (chunks_[slot].bin == kNoBin) continue;
    bins_.remove(slot);
    bins_.insert(coalesce(slot, Held::kStaysApart));
  }
}

// Merges whatever is held back, safe or not, until a chunk of `bytes` has come of it: what merges
// takes the latest count of its parts, so that it serves only requests that take any chunk. True:
// it has come.
bool Bfc::merge_until(std::uint64_t bytes) {
  bool reached = false;
  for (const ChunkSlot slot : std::exchange(held_back_, {})) {
    if (chunks_[slot].bin == kNoBin) continue;
    if (reached) {
      held_back_.push_back(slot);
      continue;
    }
    bins_.remove(slot);
    const ChunkSlot merged = coalesce(slot, Held::kMerges);
    bins_.insert(merged);
    const Chunk& chunk = chunks_[merged];
    if (merged != slot && chunk.freed_at > 0) held_back_.push_back(merged);
    reached = chunk.size >= bytes;
  }
  return reached;
}

}  // namespace vram::arena
