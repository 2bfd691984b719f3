#pragma once

#include <cstdint>

#include "driver/cuda_api.h"

namespace vram::interpose {

// Makes a pool known that lives on the card with this ordinal. A handle is added once in its life:
// a device's default pool when the process joins, others when they are made. False: too many.
[[nodiscard]] bool add_pool(CUmemoryPool handle, std::uint32_t ordinal);

// Notes which pool the device's stream-ordered allocations come from now.
void refresh_current_pool(std::uint32_t ordinal);

// Brings what is charged for this process's stream-ordered pools in line with what they reserve.
// Called where a driver may have given memory back by itself: after synchronisations and frees.
void reconcile_pools();

// The same without measuring anything beside the pools.
void settle_pools();

}  // namespace vram::interpose
