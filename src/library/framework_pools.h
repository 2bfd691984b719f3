#pragma once

// The pools that frameworks allocate from: one a device, made at its first use.
//
// Threads: any. Pools live until the process ends: a framework frees its last tensors then.

#include "library/handle.h"

namespace vram::library {

vram_status framework_pool(int device, vram_pool** pool);

// The pools that there are.
template <typename Visit>
void for_each_framework_pool(Visit visit);

// Sets the limit to a share of the card, if the environment does not say less.
void limit_framework_pool(int device, double fraction);

[[nodiscard]] vram_pool* framework_pool_if_made(int device);
inline constexpr int kMostDevices = 64;

template <typename Visit>
void for_each_framework_pool(Visit visit) {
  for (int device = 0; device < kMostDevices; ++device) {
    if (vram_pool* pool = framework_pool_if_made(device)) visit(*pool->pool);
  }
}

}  // namespace vram::library
