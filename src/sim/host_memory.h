// Memory that programs and cards use at one address: managed, pinned, registered. It costs the
// cards nothing; where managed pages lie is not simulated.
#pragma once

#include <cuda.h>

#include <cstddef>

#include "sim/memory.h"

namespace vram::sim {

[[nodiscard]] CUresult allocate_managed(Context& context, size_t bytes, unsigned flags,
                                        CUdeviceptr* out);
[[nodiscard]] CUresult allocate_pinned(Context& context, size_t bytes, unsigned flags, void** out);

// Frees what `allocation` says, of any kind but kDevice; imports are closed, registrations ended.
void free_host_kind(const Allocation& allocation);

// CUDA_ERROR_INVALID_VALUE unless it is the base of an allocation of the kind.
[[nodiscard]] CUresult free_kind(CUdeviceptr base, MemoryKind kind);

}  // namespace vram::sim
