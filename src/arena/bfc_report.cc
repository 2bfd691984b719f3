#include "arena/bfc_report.h"

#include <algorithm>
#include <map>

namespace vram::arena {

namespace {

constexpr std::uint64_t kColumns = 100;

BfcChunkReport of(const Chunk& chunk) {
  BfcChunkReport report{chunk.address, chunk.size, 0, chunk.id, 0, bfc_bin_of(chunk.size)};
  if (chunk.in_use()) {
    report.requested = chunk.requested;
  } else {
    report.freed_at = chunk.freed_at;
  }
  return report;
}

void count(const BfcChunkReport& chunk, BfcBinReport* bin) {
  ++bin->chunks;
  bin->bytes += chunk.size;
  if (!chunk.in_use()) return;
  ++bin->chunks_in_use;
  bin->bytes_in_use += chunk.size;
  bin->requested_in_use += chunk.requested;
}

// Marks the columns that `bytes` bytes from `offset` of `total` touch. In wide arithmetic: a
// hundred times a pool may not fit 64 bits.
void mark(std::string* map, std::uint64_t offset, std::uint64_t bytes, std::uint64_t total,
          char with) {
  if (bytes == 0) return;
  const auto column = [&](std::uint64_t at) {
    return static_cast<std::size_t>(static_cast<unsigned __int128>(at) * kColumns / total);
  };
  const std::size_t first = column(offset);
  map->replace(first, column(offset + bytes - 1) - first + 1,
               column(offset + bytes - 1) - first + 1, with);
}

}  // namespace

BfcReport Bfc::report(const BfcRequest& request) const {
  BfcReport report;
  report.request = request;
  report.rounded = (request.bytes + kBfcGranule - 1) / kBfcGranule * kBfcGranule;
  for (int bin = 0; bin < kBfcBins; ++bin) {
    report.bins[static_cast<std::size_t>(bin)].lower_bound = bfc_bin_lower_bound(bin);
  }
  std::map<std::uint64_t, std::uint64_t> in_use;
  for (const Region& region : regions_.all()) {
    BfcRegionReport& copy = report.regions.emplace_back();
    copy.range = region.range;
    for (ChunkSlot slot = region.first; slot != kNoChunk; slot = chunks_[slot].next) {
      const BfcChunkReport& chunk = copy.chunks.emplace_back(of(chunks_[slot]));
      count(chunk, &report.bins[static_cast<std::size_t>(chunk.bin)]);
      if (chunk.in_use()) ++in_use[chunk.size];
    }
  }
  for (const auto& [size, chunks] : in_use) report.in_use.push_back({size, chunks});

  report.wanted_bin = bfc_bin_of(report.rounded);
  const auto neighbour = [&](ChunkSlot slot) -> std::optional<BfcChunkReport> {
    if (slot == kNoChunk) return std::nullopt;
    return of(chunks_[slot]);
  };
  for (ChunkSlot slot = bins_.first_in(report.wanted_bin);
       slot != kNoChunk && chunks_[slot].bin == report.wanted_bin; slot = bins_.after(slot)) {
    const Chunk& chunk = chunks_[slot];
    report.wanted.push_back({of(chunk), neighbour(chunk.previous), neighbour(chunk.next)});
  }
  report.stats = stats();
  report.free_in_pool = report.stats.pool_bytes - report.stats.bytes_in_use;
  report.unallocated = unallocated();
  report.next_region = next_region_;
  report.growth = options_.growth;
  report.fragmentation = fragmentation();
  report.map = bfc_map(report.regions);
  return report;
}

std::string bfc_map(const std::vector<BfcRegionReport>& regions) {
  std::uint64_t total = 0;
  for (const BfcRegionReport& region : regions) total += region.range.bytes;
  if (total == 0) return {};
  std::string map(kColumns, '_');
  std::uint64_t before = 0;
  for (const BfcRegionReport& region : regions) {
    for (const BfcChunkReport& chunk : region.chunks) {
      if (!chunk.in_use()) continue;
      const std::uint64_t offset = before + (chunk.address - region.range.address);
      // In this order: a column that holds anything in use shows it.
      mark(&map, offset + chunk.requested, chunk.size - chunk.requested, total, 'x');
      mark(&map, offset, chunk.requested, total, '*');
    }
    before += region.range.bytes;
  }
  return map;
}

}  // namespace vram::arena
