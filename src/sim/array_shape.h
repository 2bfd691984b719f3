// How large arrays are: pure arithmetic on descriptions.
#pragma once

#include <cuda.h>

#include <cstddef>
#include <cstdint>

#include "sim/array.h"

namespace vram::sim {

// Levels of a mipmapped array begin at such multiples of bytes.
inline constexpr size_t kLevelAlignment = 512;

// Everything but the base. CUDA_ERROR_INVALID_VALUE for impossible descriptions,
// CUDA_ERROR_NOT_SUPPORTED for compressed and planar formats.
[[nodiscard]] CUresult shape_of(const CUDA_ARRAY3D_DESCRIPTOR& description, ArrayView* out);
[[nodiscard]] uint64_t shape_bytes(const ArrayView& view);

// To the next level of a mipmapped array; false when it is a single element already. Layers stay.
[[nodiscard]] bool halve(CUDA_ARRAY3D_DESCRIPTOR* description);

[[nodiscard]] CUDA_ARRAY_MEMORY_REQUIREMENTS requirements_for(uint64_t bytes);

// The standard tiles of 64 KiB. CUDA_ERROR_INVALID_VALUE for a description that is not sparse.
[[nodiscard]] CUresult tiles_of(const CUDA_ARRAY3D_DESCRIPTOR& description, unsigned levels,
                                CUDA_ARRAY_SPARSE_PROPERTIES* out);

}  // namespace vram::sim
