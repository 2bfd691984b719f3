#pragma once

// How the log of a recording is found and checked; the same trust as in a job's file (job_file.h).
// Its path stands in the job's header. Nothing here needs libstdc++ or throws.

#include "wire/job_file.h"
#include "wire/trace_log.h"

namespace vram::wire {

struct TraceMapping {
  TraceLog* log = nullptr;
  std::size_t bytes = 0;
  FileError error = FileError::kNone;
};

// For appending; the whole file.
[[nodiscard]] TraceMapping open_trace(const char* path);

// For reading, whatever state it was left in.
[[nodiscard]] TraceMapping read_trace(const char* path);

// A new, empty log with room for as many records as `file_bytes` hold; none of them backed yet.
[[nodiscard]] TraceMapping create_trace(const char* path, std::uint64_t file_bytes);

void unmap_trace(const TraceMapping& mapping);

}  // namespace vram::wire
