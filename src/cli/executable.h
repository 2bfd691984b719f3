#pragma once

// What a command really is, and whether the dynamic linker will load our library into it.

#include <string>

#include "cli/failure.h"

namespace vram::cli {

// The file that execvp would run. Fails with 127 when there is none and 126 when it cannot be run.
Result<std::string> find_executable(const std::string& command, const std::string& search_path);

// Empty: the program, or the interpreter of the script, loads preloaded libraries. Else the reason
// why it does not, as the end of a sentence: "is statically linked".
std::string why_not_governable(const std::string& path, const std::string& search_path);

}  // namespace vram::cli
