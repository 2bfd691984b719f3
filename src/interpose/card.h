#pragma once

// A card as NVML sees it: who holds how much.

#include <cstdint>

#include "interpose/process.h"

namespace vram::interpose {

struct CardReading {
  static constexpr unsigned kMost = 512;
  struct {
    unsigned pid;
    std::uint64_t bytes;
  } process[kMost];
  unsigned count;
  // What the card holds for a process and NVML shows in no process's row: 5.6 MiB for each and
  // 3.3 MiB for the first (docs/design/driver-behaviour.md). The same for all, rounded up.
  std::uint64_t beside_rows;
};

// False: there is no NVML, or it does not say. The first call loads it. Threads: any.
[[nodiscard]] bool read_card(Device& device, CardReading* card);

}  // namespace vram::interpose
