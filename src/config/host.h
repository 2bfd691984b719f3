#pragma once

// The world outside of a configuration, as arguments: tests bring their own.

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>

#include "pool/memory_pool.h"

namespace vram::config {

// The variable's value; none when it is not set.
using Variable = std::function<std::optional<std::string>(const char* name)>;

struct Host {
  std::function<base::Expected<const pool::DriverCalls*, pool::Failure>()> driver;
  std::function<base::Expected<std::unique_ptr<pool::MemoryPool>, pool::Failure>(
      const pool::DriverCalls&, const pool::Options&)>
      make_pool;
  Variable variable;
  std::function<std::uint64_t()> now_ms;  // monotonic
  // CUDA's stream priorities: the numerically greatest is the lowest. Every card since compute
  // capability 7.0 has these six.
  int lowest_priority = 0;
  int highest_priority = -5;
};

// This process: its libcuda.so.1, environment and clock.
Host process_host();

}  // namespace vram::config
