#pragma once

#include <time.h>

#include <cstdint>

namespace vram::pool {

// For ages; a few milliseconds coarse, and cheap.
inline std::uint64_t now_ms() {
  timespec now{};
  clock_gettime(CLOCK_MONOTONIC_COARSE, &now);
  return static_cast<std::uint64_t>(now.tv_sec) * 1000 +
         static_cast<std::uint64_t>(now.tv_nsec) / 1000000;
}

}  // namespace vram::pool
