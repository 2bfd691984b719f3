#pragma once

// How commands and the daemon report what went wrong: one line that names the thing, the limit and
// the next step, and the exit status. Only main() prints it.

#include <string>

#include "base/expected.h"

namespace vram::host {

// As docker, timeout and env have them, so that scripts need no new table.
inline constexpr int kFailed = 125;  // vram's own failure: nothing was started
inline constexpr int kNotExecutable = 126;
inline constexpr int kCommandNotFound = 127;
// Of the commands that start nothing.
inline constexpr int kError = 1;
inline constexpr int kUsage = 2;

struct Failure {
  std::string message;
  int status = kFailed;
};

template <typename T>
using Result = base::Expected<T, Failure>;

struct Done {};

}  // namespace vram::host
