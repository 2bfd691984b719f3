// CUDA arrays and mipmapped arrays.
//
// Model. An array's bytes lie in card memory like any block's: rows of a fixed pitch, one slice
// after the other. A mipmapped array is one block with an array for each level. Sparse arrays and
// arrays with deferred mapping have no memory; giving them some (cuMemMapArrayAsync) is not
// simulated. Arrays go with their context.
//
// Threads: any.
#pragma once

#include <cuda.h>

#include <cstddef>

#include "sim/context.h"

namespace vram::sim {

// Where an array's bytes are: element x (in bytes) of row y in slice z lies at
// base + x + (y + z * rows_per_slice) * pitch.
struct ArrayView {
  CUdeviceptr base = 0;  // 0: no memory
  size_t pitch = 0;
  size_t rows_per_slice = 0;
  size_t width_bytes = 0;
  size_t height = 0;
  size_t depth = 0;
};

// CUDA_ERROR_INVALID_HANDLE when it is no array, or no longer one.
[[nodiscard]] CUresult view_array(CUarray handle, ArrayView* out);

[[nodiscard]] CUresult create_array(Context& context, const CUDA_ARRAY3D_DESCRIPTOR& description,
                                    CUarray* out);
[[nodiscard]] CUresult destroy_array(CUarray handle);
[[nodiscard]] CUresult describe_array(CUarray handle, CUDA_ARRAY3D_DESCRIPTOR* out);

[[nodiscard]] CUresult create_mipmap(Context& context, const CUDA_ARRAY3D_DESCRIPTOR& description,
                                     unsigned levels, CUmipmappedArray* out);
[[nodiscard]] CUresult destroy_mipmap(CUmipmappedArray handle);
[[nodiscard]] CUresult mipmap_level(CUmipmappedArray handle, unsigned level, CUarray* out);

// What memory a sparse array or one with deferred mapping needs; CUDA_ERROR_INVALID_VALUE for
// others.
[[nodiscard]] CUresult requirements_of(CUarray handle, CUDA_ARRAY_MEMORY_REQUIREMENTS* out);
[[nodiscard]] CUresult requirements_of(CUmipmappedArray handle,
                                       CUDA_ARRAY_MEMORY_REQUIREMENTS* out);
// CUDA_ERROR_INVALID_VALUE for what is not sparse.
[[nodiscard]] CUresult sparse_properties_of(CUarray handle, CUDA_ARRAY_SPARSE_PROPERTIES* out);
[[nodiscard]] CUresult sparse_properties_of(CUmipmappedArray handle,
                                            CUDA_ARRAY_SPARSE_PROPERTIES* out);

}  // namespace vram::sim
