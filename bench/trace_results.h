// What allocators made of traces: kept as JSON, a line a result, and shown as Markdown.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace vram::bench {

struct TraceResult {
  std::string trace, allocator;
  std::uint64_t peak_live = 0;                  // bytes
  std::uint64_t peak_reserved = 0;              // bytes
  double first_ns = 0;                          // an event, in an allocator that has nothing yet
  double again_ns = 0;                          // an event, the second time
  std::optional<std::uint64_t> smallest_limit;  // bytes; absent: not searched for, or none does
  std::string failure;                          // empty: it completed
};

// Adds a line. False: the file cannot be written.
[[nodiscard]] bool append_result(const std::string& path, const TraceResult& result);
// The results of one file; of two for the same trace and allocator the later one counts. False:
// the reason is on the error stream.
[[nodiscard]] bool read_results(const std::string& path, std::vector<TraceResult>* results);

// A table a measure, a row a trace, a column an allocator; with the geometric mean and the worst of
// what completed. Failures below.
[[nodiscard]] std::string tables_of(const std::vector<TraceResult>& results);

}  // namespace vram::bench
