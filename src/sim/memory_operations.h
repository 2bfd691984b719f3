// Stream memory operations: a stream that writes a word, or waits until a word has a value.
#pragma once

#include <cuda.h>

#include <vector>

namespace vram::sim {

// CUDA_ERROR_INVALID_VALUE for addresses, flags or kinds that do not exist.
[[nodiscard]] CUresult check_memory_operations(const CUstreamBatchMemOpParams* operations,
                                               unsigned count);
// In order; waits in between. Gives up quietly when the context goes.
[[nodiscard]] CUresult run_memory_operations(
    const std::vector<CUstreamBatchMemOpParams>& operations);

}  // namespace vram::sim
