#pragma once

// The invariants of an arena, read off its report.

#include <cstdint>
#include <set>
#include <string>
#include <utility>

#include "arena/bfc_report.h"

namespace vram::arena {

// Chunks held back by a count may lie side by side, also for a while after it has passed.
enum class Neighbours : std::uint8_t { kMerged, kMayBeHeldBack };

// What is wrong with one region; empty: nothing. Adds its chunks up.
inline std::string fault_of(const BfcRegionReport& region, Neighbours neighbours,
                            std::uint64_t* in_use,
                            std::set<std::pair<std::uint64_t, std::uint64_t>>* free) {
  std::uint64_t at = region.range.address;
  const BfcChunkReport* previous = nullptr;
  for (const BfcChunkReport& chunk : region.chunks) {
    if (chunk.address != at) return "a gap or an overlap between chunks";
    if (chunk.size == 0 || chunk.size % kBfcGranule != 0) return "a chunk of no granules";
    if (chunk.requested > chunk.size) return "a chunk smaller than asked for";
    const bool pair = previous != nullptr && !previous->in_use() && !chunk.in_use();
    if (pair && neighbours == Neighbours::kMerged) return "free neighbours";
    if (chunk.in_use()) *in_use += chunk.size;
    if (!chunk.in_use()) free->emplace(chunk.size, chunk.address);
    at += chunk.size;
    previous = &chunk;
  }
  return at == region.range.address + region.range.bytes ? "" : "chunks do not cover the region";
}

// What is wrong with the arena; empty: nothing.
inline std::string fault_of(const Bfc& bfc, Neighbours neighbours = Neighbours::kMerged) {
  const BfcReport report = bfc.report({});
  std::uint64_t pool = 0;
  std::uint64_t in_use = 0;
  std::uint64_t end = 0;
  std::set<std::pair<std::uint64_t, std::uint64_t>> free;
  for (const BfcRegionReport& region : report.regions) {
    if (region.range.address < end) return "regions overlap or are out of order";
    end = region.range.address + region.range.bytes;
    pool += region.range.bytes;
    const std::string fault = fault_of(region, neighbours, &in_use, &free);
    if (!fault.empty()) return fault;
  }
  if (pool != report.stats.pool_bytes) return "the pool is not the sum of the regions";
  if (in_use != report.stats.bytes_in_use) return "bytes in use are not the sum of the chunks";
  const std::uint64_t largest = free.empty() ? 0 : free.rbegin()->first;
  if (largest != report.stats.largest_free_block_bytes) return "the largest free block is not";
  for (int bin = 0; bin < kBfcBins; ++bin) {
    std::pair<std::uint64_t, std::uint64_t> last{0, 0};
    BfcRequest request;
    request.bytes = bfc_bin_lower_bound(bin);
    for (const BfcFreeReport& entry : bfc.report(request).wanted) {
      const std::pair key{entry.chunk.size, entry.chunk.address};
      if (!(last < key)) return "a bin out of order";
      if (entry.chunk.bin != bin) return "a chunk in the bin of another size";
      if (free.erase(key) == 0) return "a bin holds what is not free";
      last = key;
    }
  }
  return free.empty() ? "" : "a free chunk in no bin";
}

}  // namespace vram::arena
