#pragma once

// A configuration as people and programs read it. Pure: from a snapshot to text.

#include <string>

#include "config/runtime.h"

namespace vram::config {

// One line: "vram: strict, 2 GPUs: GPU:0 4GiB on demand, GPU:1 up to what is free, on demand".
std::string status_line(const Snapshot& snapshot);
std::string describe_text(const Snapshot& snapshot);
// {"schema": 1, "mode", "initialised_by", "physical_devices": [...], "logical_devices": [...],
//  "diagnostics": [...]}: sizes in bytes, null for what is not known.
std::string describe_json(const Snapshot& snapshot);
std::string memory_text(const Snapshot& snapshot);
// {"schema": 1, "devices": [{"name", "current", "peak", ...}]}
std::string memory_json(const Snapshot& snapshot);

}  // namespace vram::config
