#pragma once

// Runs the program as the shell would have: same process group, terminal and standard streams.

#include <sys/types.h>

#include <functional>
#include <string>
#include <vector>

#include "cli/failure.h"

namespace vram::cli {

struct Program {
  std::vector<std::string> arguments;    // as typed, the name first
  std::vector<std::string> environment;  // NAME=VALUE
};

// Starts it, calls `started` with its pid, waits. The exit status as a shell reports it: the
// program's own, or 128 + the number of the signal that ended it.
//
// Meanwhile signals that were sent to this process go on to the program; what the terminal sends
// reaches both by itself. When the program in the foreground of a terminal stops, this process
// stops with it, so that the shell notices, and both continue together.
Result<int> run_and_wait(const Program& program, const std::function<void(pid_t)>& started);

// Becomes the program. Returns only on failure.
Failure become(const Program& program);

}  // namespace vram::cli
