#pragma once

// What /proc says about a process. Everything may be unknown: the process may be gone, or another
// user's on a host that hides those.

#include <cstdint>
#include <optional>
#include <string>

namespace vram::probe {

struct Process {
  std::int32_t pid = 0;
  std::optional<std::uint32_t> uid;
  std::optional<std::string> command;  // the command line; the name in brackets without one
  std::optional<char> state;           // as in proc(5): R, S, D, T, Z ...
  std::optional<std::int32_t> parent;
};

Process read_process(std::int32_t pid);

// The user's name, or the number when it has none.
std::string user_name(std::uint32_t uid);

}  // namespace vram::probe
