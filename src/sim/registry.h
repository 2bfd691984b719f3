// All allocations of the process by address. Internal to the memory families of the simulator.
//
// Threads: one lock, shared for look-ups. Callers take it through the functions here; none of them
// calls out while it is held.
#pragma once

#include <cuda.h>

#include <cstddef>
#include <cstdint>
#include <vector>

#include "sim/memory.h"

namespace vram::sim {

// Gives `allocation` its buffer_id and makes it known. Ranges never overlap, except that host
// memory may be registered once at most: false when the range is taken.
[[nodiscard]] bool register_allocation(Allocation allocation);

// Removes and returns the allocation that begins at `base` and is of `kind`; false when there is
// none. From two threads that free the same address exactly one succeeds.
[[nodiscard]] bool take_allocation(CUdeviceptr base, MemoryKind kind, Allocation* out);

// The allocations made in a context.
[[nodiscard]] std::vector<Allocation> allocations_of(const Context& context);

// Whether the card may touch a mapped piece of virtual memory (cuMemSetAccess).
void set_accessible(CUdeviceptr base, bool accessible);

[[nodiscard]] constexpr uint64_t round_up(uint64_t value, uint64_t multiple) {
  return (value + multiple - 1) / multiple * multiple;
}

}  // namespace vram::sim
