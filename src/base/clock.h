#pragma once

// The kernel's clocks, for code that may not use libstdc++'s.

#include <time.h>

#include <cstdint>

namespace vram::base {

inline std::uint64_t clock_ns(clockid_t clock) {
  timespec now{};
  clock_gettime(clock, &now);
  return static_cast<std::uint64_t>(now.tv_sec) * 1'000'000'000 +
         static_cast<std::uint64_t>(now.tv_nsec);
}

// Since some moment that is the same for all processes of the host.
inline std::uint64_t now_us() { return clock_ns(CLOCK_MONOTONIC) / 1'000; }
inline std::uint64_t now_ms() { return clock_ns(CLOCK_MONOTONIC) / 1'000'000; }

// Since the host started, its sleep included: the clock of the times in job files.
inline std::uint64_t boot_ns() { return clock_ns(CLOCK_BOOTTIME); }

}  // namespace vram::base
