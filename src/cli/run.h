#pragma once

#include "cli/options.h"

namespace vram::cli {

// Runs the program; its exit status.
Result<int> run(const RunOptions& options);

}  // namespace vram::cli
