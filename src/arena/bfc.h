#pragma once

// Best fit with coalescing, with the placement rules of TensorFlow's and XLA's BFCAllocator, so
// that a pool configured like theirs puts every allocation where theirs would.
//
//     regions  address ranges taken from a RegionSource as they are needed, or all at once
//     chunks   cover each region side by side; an allocation is a chunk in use
//     bins     hold the free chunks by size
//
// Invariants: chunks of a region are contiguous and cover it; every free chunk is in the bin of its
// size; no two free neighbours, unless one of them is held back by the count at which it was freed;
// bytes in use are the sum of the chunks in use; the pool is the sum of the regions.
//
// Where the original's behaviour is undefined, hangs or ends the process, this one is defined: a
// source that grants more than was asked does not lift the limit, the next region's size does not
// wrap around, a chunk held back in a region that was given back is forgotten, and an address that
// is not an allocation is refused.
//
// Threads: none of its own; SharedBfc is the same behind a lock.

#include <atomic>
#include <cstdint>
#include <deque>
#include <optional>
#include <string_view>

#include "arena/bfc_bins.h"
#include "arena/bfc_chunk.h"
#include "arena/bfc_regions.h"
#include "arena/region_source.h"
#include "base/expected.h"

namespace vram::arena {

struct BfcReport;

struct BfcOptions {
  std::uint64_t limit = 0;  // bytes that all regions together may have, at most 2^62

  // True: regions of 2, 4, 8 MiB and so on. False: the whole limit at the first allocation.
  bool growth = true;

  // Whether regions without an allocation are given back when a request would fail otherwise.
  bool garbage_collection = false;

  // A chunk is split when it would waste this share of the limit; not above 0: 128 MiB instead.
  double internal_fragmentation_fraction = 0;
};

struct BfcRequest {
  std::uint64_t bytes = 0;
  std::uint64_t alignment = kBfcGranule;  // a power of two
  // Only chunks freed at or before this count will do; 0: any will.
  std::uint64_t freed_before = 0;
  // The source is not asked for more at once, bytes.
  std::uint64_t largest_region = ~std::uint64_t{0};
};

enum class BfcError : std::uint8_t {
  kZeroBytes,
  kBadAlignment,  // not a power of two
  kOutOfMemory,
};

// Bytes, rounded up to the granule, unless it says otherwise.
struct BfcStats {
  std::uint64_t num_allocs = 0;  // allocations
  std::uint64_t bytes_in_use = 0;
  std::uint64_t peak_bytes_in_use = 0;
  std::uint64_t largest_alloc_size = 0;
  std::uint64_t bytes_limit = 0;
  // Kept for readers of the original's statistics; this allocator reserves nothing.
  std::uint64_t bytes_reserved = 0;
  std::uint64_t peak_bytes_reserved = 0;
  std::uint64_t pool_bytes = 0;
  std::uint64_t peak_pool_bytes = 0;
  std::uint64_t largest_free_block_bytes = 0;

  bool operator==(const BfcStats&) const = default;
};

struct BfcAllocation {
  std::uint64_t requested = 0;  // bytes asked for
  std::uint64_t allocated = 0;  // bytes had
  std::uint64_t id = 0;         // from 1, never the same twice in an arena
};

class Bfc {
 public:
  // The source outlives the arena. Nothing is taken from it before the first allocation.
  Bfc(RegionSource& source, const BfcOptions& options);
  Bfc(const Bfc&) = delete;
  Bfc& operator=(const Bfc&) = delete;
  ~Bfc();  // gives every region back, allocations or not

  // The address of the allocation.
  [[nodiscard]] base::Expected<std::uint64_t, BfcError> allocate(const BfcRequest& request);

  // False, and nothing changes: no allocation begins at the address.
  [[nodiscard]] bool free(std::uint64_t address);

  [[nodiscard]] std::optional<BfcAllocation> find(std::uint64_t address) const;

  // Counts from the next request on; what is above it already stays until it is freed or trimmed.
  void set_limit(std::uint64_t bytes);

  // Gives regions without an allocation back, the last ones first, until the pool has at most
  // `keep` bytes. Returns the bytes given back.
  std::uint64_t trim(std::uint64_t keep);

  // The region that the source would be asked for first, bytes; 0: a free chunk would do, or the
  // limit is in the way. Walks what `allocate` would walk, and changes nothing.
  [[nodiscard]] std::uint64_t region_for(const BfcRequest& request) const;

  // With a counter, each free takes its next value, and the freed chunk is held back from merging
  // until `set_safe_frontier` has passed that. Null: chunks freed from now on are free at once.
  // The counter outlives the arena.
  void set_timing_counter(std::atomic<std::uint64_t>* counter) { counter_ = counter; }

  // What was freed before `count` is safe to use for anything. True: the frontier moved forward.
  bool set_safe_frontier(std::uint64_t count);

  [[nodiscard]] BfcStats stats() const;
  // Peaks begin anew at what is in use, counts at zero; the pool's peak stays.
  void clear_stats();

  // Of the free bytes in the pool, the share outside the largest free chunk; 0 when none is free.
  [[nodiscard]] double fragmentation() const;

  [[nodiscard]] const BfcOptions& options() const { return options_; }

  // What a request that failed should know: see bfc_report.h. Walks every chunk.
  [[nodiscard]] BfcReport report(const BfcRequest& request) const;

 private:
  // A request in terms of chunks.
  struct Want {
    std::uint64_t bytes;      // as asked for
    std::uint64_t rounded;    // bytes, to the granule
    std::uint64_t alignment;  // at least the granule
    std::uint64_t freed_before;
    std::uint64_t largest_region;
  };
  enum class Held : std::uint8_t { kStaysApart, kMerges };

  static Want want_of(const BfcRequest& request);
  ChunkSlot obtain(const Want& want);
  ChunkSlot take(const Want& want);
  ChunkSlot first_fitting(const Want& want) const;
  ChunkSlot carve(ChunkSlot slot, const Want& want);
  void split(ChunkSlot slot, std::uint64_t bytes);
  ChunkSlot coalesce(ChunkSlot slot, Held held);
  void merge_next_into(ChunkSlot slot);

  bool extend(const Want& want);
  std::optional<Range> ask(const Want& want, std::uint64_t bytes);
  std::optional<Range> ask_once(const Want& want, std::uint64_t bytes);
  void add_region(Range range);
  ChunkSlot last_of(const Region& region) const;
  bool collect(std::uint64_t bytes);
  bool wholly_free(const Region& region) const;
  void give_back(const Region& region);
  std::uint64_t unallocated() const;

  void merge_safe();
  bool merge_until(std::uint64_t bytes);

  RegionSource& source_;
  BfcOptions options_;
  const std::uint64_t most_waste_;  // bytes
  std::uint64_t next_region_;       // bytes
  std::uint64_t next_id_ = 1;
  BfcStats stats_;

  ChunkStore chunks_;
  BfcBins bins_;
  RegionList regions_;
  ChunkIndex index_;

  std::atomic<std::uint64_t>* counter_ = nullptr;
  std::uint64_t safe_frontier_ = 0;
  std::deque<ChunkSlot> held_back_;  // in the order they were freed; may name slots dropped since
};

}  // namespace vram::arena
