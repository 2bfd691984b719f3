#pragma once

#include "cli/options.h"

namespace vram::cli {

// Runs the program and records it, or makes a trace of a log that was left; the exit status.
Result<int> trace(const TraceOptions& options);

}  // namespace vram::cli
