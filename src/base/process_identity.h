#pragma once

// A process named so that a reused pid is somebody else: pid (22 bits, the
// kernel's maximum) and start time in clock ticks since boot (41 bits). Bit 63
// stays free for the ledger.
//
// Nothing here allocates; all may be called in a program that is in any state.

#include <cstdint>

namespace vram::base {

inline constexpr unsigned kPidBits = 22;

inline std::int32_t pid_of(std::uint64_t identity) {
  return static_cast<std::int32_t>(identity & ((std::uint64_t{1} << kPidBits) - 1));
}

// 0: no such process, or /proc is not readable.
std::uint64_t identity_of(std::int32_t pid);

// The inode of the caller's pid namespace; 0 when /proc does not tell.
std::uint64_t own_pid_namespace();

// False only when the process is certainly gone: no such pid, another start
// time, or a zombie without a running thread (its files, and so its device
// memory, are closed by then). What cannot be judged from here counts as alive:
// a process of another pid namespace, or any whose /proc entry is hidden,
// unreadable or another namespace's.
bool is_alive(std::uint64_t identity, std::uint64_t pid_namespace);

}  // namespace vram::base
