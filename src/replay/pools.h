#pragma once

// vram's pools as targets of a replay.

#include <memory>
#include <optional>
#include <string>

#include "base/expected.h"
#include "replay/device.h"
#include "replay/replay.h"

namespace vram::replay {

struct NamedPool {
  const char* name;
  pool::Kind kind;
};
// Of device memory.
inline constexpr NamedPool kPools[] = {{"segments", pool::Kind::kSegments},
                                       {"bfc", pool::Kind::kBfc},
                                       {"driver-async", pool::Kind::kDriverAsync}};

[[nodiscard]] std::optional<NamedPool> find_pool(const std::string& name);

struct PoolOutcome : Outcome {
  // What the driver was asked to map, ever; 0 for pools that map nothing.
  std::uint64_t pages_mapped = 0;
  std::uint64_t bytes_mapped = 0;
};

// A replay through one pool, made for it and gone after it. Memory that is idle stays: a replay is
// faster than the program was, so the pool's clock means nothing. A failure says why there is no
// such pool here. One at a time in a process.
[[nodiscard]] base::Expected<PoolOutcome, std::string> run_pool(const Workload& workload,
                                                                Device& device, pool::Kind kind,
                                                                std::uint64_t limit,
                                                                unsigned samples);

}  // namespace vram::replay
