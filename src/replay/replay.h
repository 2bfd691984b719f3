#pragma once

// Runs a workload through an allocator, and finds the smallest limit at which it completes.
// Whatever the allocator is made of: a pool of vram's, the driver, a library of somebody else's.

#include <cstdint>
#include <functional>
#include <optional>
#include <vector>

#include "replay/workload.h"

namespace vram::replay {

class Target {
 public:
  virtual ~Target() = default;
  // `stream` as in the workload. The block; 0: refused.
  [[nodiscard]] virtual std::uint64_t allocate(std::uint64_t bytes, std::uint32_t stream) = 0;
  // A block that is alive, and its bytes.
  virtual void free(std::uint64_t block, std::uint64_t bytes, std::uint32_t stream) = 0;
  // Bytes held from the driver: now, and at their highest.
  [[nodiscard]] virtual std::uint64_t reserved() = 0;
  [[nodiscard]] virtual std::uint64_t peak_reserved() = 0;
};

// Of a part of the workload.
struct Sample {
  std::uint64_t live;      // at its highest in that part
  std::uint64_t reserved;  // at its end
};

// The request that was refused.
struct Stop {
  std::uint64_t step;   // from 1
  std::uint64_t bytes;  // asked for
  std::uint64_t live;
  std::uint64_t reserved;
};

struct Outcome {
  std::uint64_t steps = 0;  // done
  std::uint64_t allocations = 0;
  std::uint64_t peak_live = 0;  // of what was done; bytes as asked for
  std::uint64_t peak_reserved = 0;
  double step_ns = 0;  // on average
  std::vector<Sample> samples;
  std::optional<Stop> stop;

  // Peak reserved of peak live; 0 when nothing was allocated.
  [[nodiscard]] double ratio() const {
    return peak_live == 0 ? 0 : static_cast<double>(peak_reserved) / static_cast<double>(peak_live);
  }
};

// Up to the first request that is refused. Everything is freed at the end. `samples`: about so many
// parts, from 1. Time is that of the target's calls, without that of samples.
[[nodiscard]] Outcome run(const Workload& workload, Target& target, unsigned samples);

struct Search {
  std::uint64_t least;      // no less can do: what is live at its highest
  std::uint64_t likely;     // should do
  std::uint64_t most;       // more is not there
  std::uint64_t precision;  // bytes
};

// By bisection, for an allocator that may complete at one limit and not at a larger one: the answer
// completes, and `precision` less does not. Nothing: not even `most` does.
[[nodiscard]] std::optional<std::uint64_t> smallest_limit(
    const Search& search, const std::function<bool(std::uint64_t limit)>& completes);

}  // namespace vram::replay
