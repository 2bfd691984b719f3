#pragma once

// One process's use of one card out of a recorded trace.

#include <cstdint>
#include <optional>
#include <string>

#include "base/expected.h"
#include "replay/workload.h"

namespace vram::replay {

// Numbers as the trace has them; absent: those with the highest peak.
struct Choice {
  std::optional<std::uint32_t> process;
  std::optional<std::uint32_t> device;
};

struct Recorded {
  Workload workload;
  std::uint32_t process = 0;
  std::uint32_t device = 0;
  std::uint32_t processes = 0;   // that allocated anything
  std::uint32_t devices = 0;     // on which anything was allocated
  std::uint64_t card_bytes = 0;  // 0: the trace does not say
  // Of the chosen process and device, and not in the workload:
  std::uint64_t zero_bytes = 0;  // allocations of nothing
  std::uint64_t refused = 0;     // requests that the recorded program was refused
  std::uint64_t foreign = 0;     // memory that something else counts: imports, captures
  // Of the whole trace:
  std::uint64_t lost = 0;  // events that are missing in it
  bool truncated = false;  // it stops in the middle
};

// Everything that the process itself held counts, whichever way it was taken. What it still held at
// its end is not freed. A failure names the file, and the line where there is one.
base::Expected<Recorded, std::string> read_recorded(const std::string& path, const Choice& choice);

}  // namespace vram::replay
