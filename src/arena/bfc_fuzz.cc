// Whatever the operations: allocations do not overlap, chunks cover their regions, free neighbours
// are merged, the bins hold the free chunks and the statistics are the sums.
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <map>
#include <span>

#include "arena/bfc_check_for_test.h"
#include "arena/pretend_regions_for_test.h"

namespace {

using namespace vram::arena;

class Bytes {
 public:
  explicit Bytes(std::span<const std::uint8_t> data) : data_(data) {}
  bool empty() const { return data_.empty(); }
  std::uint64_t next() {
    if (data_.empty()) return 0;
    const std::uint64_t value = data_[0];
    data_ = data_.subspan(1);
    return value;
  }

 private:
  std::span<const std::uint8_t> data_;
};

BfcOptions options_of(Bytes& bytes) {
  BfcOptions options;
  options.limit = (bytes.next() + 1) << (bytes.next() % 24);
  const std::uint64_t flags = bytes.next();
  options.growth = (flags & 1) != 0;
  options.garbage_collection = (flags & 2) != 0;
  options.internal_fragmentation_fraction = static_cast<double>(flags >> 2) / 64;
  return options;
}

RegionHabits habits_of(Bytes& bytes) {
  RegionHabits habits;
  const std::uint64_t flags = bytes.next();
  habits.coalescing = (flags & 1) != 0;
  if ((flags & 2) != 0) habits.place = RegionHabits::Place::kDownwards;
  habits.gap = (flags & 4) != 0 ? 0 : 512;
  habits.grain = std::uint64_t{256} << ((flags >> 3) % 8);
  habits.refuse_every = flags >> 6;
  habits.largest = (bytes.next() + 1) << 14;
  return habits;
}

struct Player {
  Bytes& bytes;
  Bfc& bfc;
  std::map<std::uint64_t, std::uint64_t> live{};  // address to end

  void allocate() {
    BfcRequest request;
    request.bytes = bytes.next() << (bytes.next() % 20);
    request.alignment = std::uint64_t{1} << (bytes.next() % 24);
    const std::uint64_t before = bytes.next();
    request.freed_before = before < 128 ? 0 : before - 128;
    const auto address = bfc.allocate(request);
    if (!address) return;
    if (*address % request.alignment != 0 || *address % kBfcGranule != 0) std::abort();
    const auto found = bfc.find(*address);
    if (!found || found->requested != request.bytes || found->allocated < request.bytes) {
      std::abort();
    }
    const std::uint64_t end = *address + found->allocated;
    const auto above = live.lower_bound(*address);
    if (above != live.end() && above->first < end) std::abort();
    if (above != live.begin() && std::prev(above)->second > *address) std::abort();
    live.emplace(*address, end);
  }

  void free() {
    const std::uint64_t which = bytes.next();
    if (live.empty()) return;
    auto at = live.lower_bound(live.begin()->first + (which << 10));
    if (at == live.end()) at = live.begin();
    if (bfc.free(at->first + kBfcGranule / 2) || !bfc.free(at->first)) std::abort();
    if (bfc.free(at->first)) std::abort();
    live.erase(at);
  }
};

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  Bytes bytes(std::span(data, size));
  const BfcOptions options = options_of(bytes);
  PretendRegions regions(habits_of(bytes));
  {
    Bfc bfc(regions, options);
    std::atomic<std::uint64_t> counter = 0;
    Player player{bytes, bfc};
    Neighbours neighbours = Neighbours::kMerged;
    while (!bytes.empty()) {
      const std::uint64_t kind = bytes.next();
      if (kind < 120) player.allocate();
      if (kind >= 120 && kind < 230) player.free();
      if (kind >= 230 && kind < 245) (void)bfc.set_safe_frontier(counter.load() + kind - 235);
      if (kind == 245) bfc.clear_stats();
      if (kind == 246) {
        bfc.set_timing_counter(&counter);
        neighbours = Neighbours::kMayBeHeldBack;
      }
      if (kind == 247) bfc.set_timing_counter(nullptr);
      if (!fault_of(bfc, neighbours).empty()) std::abort();
    }
    if (bfc.stats().pool_bytes != regions.held || regions.wrong_frees != 0) std::abort();
  }
  if (regions.held != 0) std::abort();
  return 0;
}
