// Copies and fills of the simulated memory.
#pragma once

#include <cuda.h>

#include "sim/context.h"

namespace vram::sim {

// What is wrong with a copy or fill that is about to be submitted: CUDA_ERROR_INVALID_VALUE for
// pitches too small and for device ranges that do not exist.
[[nodiscard]] CUresult check_copy(const CUDA_MEMCPY3D& copy);
[[nodiscard]] CUresult check_fill(const CUDA_MEMSET_NODE_PARAMS& fill);

// Does it now. CUDA_ERROR_ILLEGAL_ADDRESS where memory has gone since it was submitted.
[[nodiscard]] CUresult run_copy(const CUDA_MEMCPY3D& copy);
[[nodiscard]] CUresult run_fill(const CUDA_MEMSET_NODE_PARAMS& fill);

// True for host memory that the card cannot reach by itself: copies of it pass through the driver.
[[nodiscard]] bool is_pageable(const void* host);

// One row of bytes from anywhere to anywhere.
[[nodiscard]] CUDA_MEMCPY3D linear_copy(CUmemorytype to, CUdeviceptr dst, CUmemorytype from,
                                        CUdeviceptr src, size_t bytes);

}  // namespace vram::sim
