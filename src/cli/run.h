#pragma once

#include "cli/options.h"
#include "cli/recorder.h"

namespace vram::cli {

// Runs the program; its exit status. `recorder`: records what it does; null: nobody does.
Result<int> run(const RunOptions& options, Recorder* recorder);

}  // namespace vram::cli
