// Ranges of card memory given to other drivers (cuMemGetHandleForAddressRange).
//
// Model. The descriptor holds the pieces of memory that the range lies in, as one more holder in
// this process, until its last copy is closed anywhere; they are charged until then, also when the
// program frees them. Nothing can be read through it.
//
// Threads: any.
#pragma once

#include <cuda.h>

#include <cstddef>

namespace vram::sim {

// A descriptor of the caller's own. CUDA_ERROR_INVALID_VALUE unless the whole range is one
// allocation, or mapped from memory of one card; CUDA_ERROR_NOT_SUPPORTED for memory of the host.
[[nodiscard]] CUresult export_range(CUdeviceptr address, size_t bytes, int* descriptor);

}  // namespace vram::sim
