#pragma once

// An arena at one moment, as its owner needs it when a request failed: plain values, and a text
// made of them.

#include <array>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "arena/bfc.h"

namespace vram::arena {

struct BfcChunkReport {
  std::uint64_t address = 0;
  std::uint64_t size = 0;       // bytes
  std::uint64_t requested = 0;  // bytes; 0 when free
  std::uint64_t id = 0;         // of the allocation; 0: free
  std::uint64_t freed_at = 0;   // count; 0: not held back
  int bin = 0;                  // that its size belongs to

  bool in_use() const { return id != 0; }
};

struct BfcRegionReport {
  Range range;
  std::vector<BfcChunkReport> chunks;  // side by side
};

// All sizes in bytes.
struct BfcBinReport {
  std::uint64_t lower_bound = 0;
  std::uint64_t chunks = 0;
  std::uint64_t chunks_in_use = 0;
  std::uint64_t bytes = 0;
  std::uint64_t bytes_in_use = 0;
  std::uint64_t requested_in_use = 0;
};

// A free chunk of the bin that the request would have been served from, and what lies beside it.
struct BfcFreeReport {
  BfcChunkReport chunk;
  std::optional<BfcChunkReport> previous;
  std::optional<BfcChunkReport> next;
};

struct BfcSizeReport {
  std::uint64_t size = 0;    // bytes
  std::uint64_t chunks = 0;  // in use, of that size
};

struct BfcReport {
  BfcRequest request;
  std::uint64_t rounded = 0;  // bytes of the request, to the granule
  std::array<BfcBinReport, kBfcBins> bins;
  int wanted_bin = 0;
  std::vector<BfcFreeReport> wanted;  // the free chunks of that bin, in the order they are tried
  std::vector<BfcRegionReport> regions;
  std::vector<BfcSizeReport> in_use;  // by size
  std::uint64_t free_in_pool = 0;     // bytes
  std::uint64_t unallocated = 0;      // bytes of the limit that are not in the pool
  std::uint64_t next_region = 0;      // bytes
  bool growth = false;
  double fragmentation = 0;
  BfcStats stats;
  std::string map;  // see `bfc_map`
};

// The pool in 100 columns: `*` in use, `x` had but not asked for, `_` free. Empty without a pool.
[[nodiscard]] std::string bfc_map(const std::vector<BfcRegionReport>& regions);

// Lines for a person. `name` is the arena's, `purpose` what the memory was wanted for; either may
// be empty.
[[nodiscard]] std::string to_text(const BfcReport& report, std::string_view name,
                                  std::string_view purpose);

}  // namespace vram::arena
