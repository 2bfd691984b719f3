#include <cinttypes>
#include <cstdarg>
#include <cstdio>

#include "arena/bfc_report.h"

namespace vram::arena {

namespace {

[[gnu::format(printf, 2, 3)]] void add(std::string* text, const char* format, ...) {
  char line[512];
  va_list arguments;
  va_start(arguments, format);
  std::vsnprintf(line, sizeof line, format, arguments);
  va_end(arguments);
  *text += line;
}

std::string human(std::uint64_t bytes) {
  constexpr const char* kUnits[] = {"KiB", "MiB", "GiB", "TiB", "PiB", "EiB"};
  if (bytes < 1024) return std::to_string(bytes) + "B";
  std::size_t unit = 0;
  double amount = static_cast<double>(bytes) / 1024;
  while (amount >= 1024 && unit + 1 < std::size(kUnits)) {
    amount /= 1024;
    ++unit;
  }
  char text[32];
  std::snprintf(text, sizeof text, "%.2f%s", amount, kUnits[unit]);
  return text;
}

std::string named(std::string_view name) {
  return name.empty() ? std::string("the arena") : "'" + std::string(name) + "'";
}

void add_request(std::string* text, const BfcReport& report, std::string_view name,
                 std::string_view purpose) {
  *text += named(name) + ": out of memory: " + human(report.request.bytes);
  add(text, " (%" PRIu64 " bytes once rounded)", report.rounded);
  if (!purpose.empty()) *text += " for " + std::string(purpose);
  *text += " does not fit its limit of " + human(report.stats.bytes_limit) + ".\n";
  if (report.free_in_pool >= report.rounded) {
    *text += "Enough is free, in pieces: free larger blocks, or use an arena that gives regions ";
    *text += "back, or ask for smaller ones.\n";
  } else {
    *text += "Raise the limit, or free something first.\n";
  }
}

void add_bins(std::string* text, const BfcReport& report) {
  *text += "Chunks by size:\n";
  for (const BfcBinReport& bin : report.bins) {
    add(text, "  from %10s: %" PRIu64 " chunks, %" PRIu64 " in use; ",
        human(bin.lower_bound).c_str(), bin.chunks, bin.chunks_in_use);
    *text += human(bin.bytes) + ", " + human(bin.bytes_in_use) + " in use, " +
             human(bin.requested_in_use) + " asked for\n";
  }
}

std::string beside(const std::optional<BfcChunkReport>& chunk) {
  if (!chunk) return "nothing";
  return human(chunk->size) + (chunk->in_use() ? " in use" : " free");
}

void add_wanted(std::string* text, const BfcReport& report) {
  *text += human(report.rounded) + " belongs among the chunks from " +
           human(bfc_bin_lower_bound(report.wanted_bin)) + "; of those, free:\n";
  for (const BfcFreeReport& free : report.wanted) {
    *text += "  " + human(free.chunk.size) + " between " + beside(free.previous) + " and " +
             beside(free.next) + "\n";
  }
  if (report.wanted.empty()) *text += "  none\n";
}

void add_regions(std::string* text, const BfcReport& report) {
  for (const BfcRegionReport& region : report.regions) {
    add(text, "Region of %" PRIu64 " bytes at 0x%" PRIx64 ":\n", region.range.bytes,
        region.range.address);
    for (const BfcChunkReport& chunk : region.chunks) {
      add(text, "  %s at 0x%" PRIx64 " of size %" PRIu64, chunk.in_use() ? "InUse" : "Free ",
          chunk.address, chunk.size);
      if (chunk.freed_at > 0) add(text, " freed at count %" PRIu64, chunk.freed_at);
      const bool last = &chunk == &region.chunks.back();
      if (!last) add(text, " next 0x%" PRIx64, chunk.address + chunk.size);
      *text += "\n";
    }
  }
}

void add_sizes(std::string* text, const BfcReport& report) {
  *text += "In use by size:\n";
  for (const BfcSizeReport& in_use : report.in_use) {
    add(text, "  %" PRIu64 " chunks of size %" PRIu64 ", together ", in_use.chunks, in_use.size);
    *text += human(in_use.chunks * in_use.size) + "\n";
  }
  *text += "Sum in use: " + human(report.stats.bytes_in_use) + "\n";
}

void add_totals(std::string* text, const BfcReport& report) {
  *text += "Pool: " + human(report.stats.pool_bytes) + ", free in it " +
           human(report.free_in_pool) + ", largest free block " +
           human(report.stats.largest_free_block_bytes) + ", not in it yet " +
           human(report.unallocated) + ", limit " + human(report.stats.bytes_limit) + "\n";
  *text += "Next region: " + human(report.next_region) +
           (report.growth ? " (the pool grows)\n" : " (the pool has one size)\n");
}

void add_stats(std::string* text, const BfcStats& stats) {
  const struct {
    const char* name;
    std::uint64_t value;
  } rows[] = {{"Limit", stats.bytes_limit},
              {"InUse", stats.bytes_in_use},
              {"MaxInUse", stats.peak_bytes_in_use},
              {"NumAllocs", stats.num_allocs},
              {"MaxAllocSize", stats.largest_alloc_size},
              {"Reserved", stats.bytes_reserved},
              {"PeakReserved", stats.peak_bytes_reserved},
              {"LargestFreeBlock", stats.largest_free_block_bytes}};
  for (const auto& row : rows) add(text, "%-16s %20" PRIu64 "\n", row.name, row.value);
}

}  // namespace

std::string to_text(const BfcReport& report, std::string_view name, std::string_view purpose) {
  std::string text;
  add_request(&text, report, name, purpose);
  add_bins(&text, report);
  add_wanted(&text, report);
  add_regions(&text, report);
  add_sizes(&text, report);
  add_totals(&text, report);
  add_stats(&text, report.stats);
  add(&text, "Fragmentation    %20.3f\n", report.fragmentation);
  text += report.map.empty() ? std::string("(no pool)") : report.map;
  text += "\n";
  return text;
}

}  // namespace vram::arena
