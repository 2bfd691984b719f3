// What the card's own books say, which no limit changes.
#pragma once

#include <nvml.h>
#include <unistd.h>

#include "program.h"

// Bytes that NVML says process `pid` holds on the card with this index of NVML's.
inline std::size_t held_by(unsigned pid, unsigned index = 0) {
  nvmlDevice_t device = nullptr;
  nvmlProcessInfo_t rows[256];
  unsigned count = 256;
  CHECK_IS(nvmlInit_v2(), NVML_SUCCESS);
  CHECK_IS(nvmlDeviceGetHandleByIndex_v2(index, &device), NVML_SUCCESS);
  CHECK_IS(nvmlDeviceGetComputeRunningProcesses_v3(device, &count, rows), NVML_SUCCESS);
  for (unsigned i = 0; i < count; ++i) {
    if (rows[i].pid == pid) return rows[i].usedGpuMemory;
  }
  return 0;
}

inline std::size_t held(unsigned index = 0) {
  return held_by(static_cast<unsigned>(getpid()), index);
}
