#pragma once

// How much one pool may hold when nobody said so in bytes: TensorFlow's rule for a GPU that is one
// device (gpu_device.cc, SingleVirtualDeviceMemoryLimit), to the byte.
//
// Pure: no driver, no environment.

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "config/cards.h"
#include "config/fault.h"

namespace vram::config {

// What is left to the driver and its libraries when a pool takes the rest.
std::uint64_t min_system_memory(std::uint64_t free, int capability_major);

struct LimitRequest {
  double fraction = 0;          // of total; 0: free less the reserve
  std::int64_t system_mib = 0;  // gpu_system_memory_size_in_mb; 0: not said
  std::optional<std::int64_t> env_system_mib;
};

struct LimitAnswer {
  std::int64_t bytes = 0;            // may be negative for a negative fraction
  std::vector<std::string> ignored;  // what was asked for and cannot be
};

LimitAnswer single_device_limit(const Card& card, const CardMemory& memory,
                                const LimitRequest& request);

// TensorFlow's conversion of memory_limit_mb: whole MiB, then bytes.
std::int64_t virtual_device_limit(float mib);

// Managed memory needs compute capability 6.0: InternalError.
Outcome check_managed(const Card& card);

}  // namespace vram::config
