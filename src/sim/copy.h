// Copies as calls: which of them wait, and for what.
#pragma once

#include <cuda.h>

#include "sim/stream.h"

namespace vram::sim {

// On the stream that `stream` means to the calling thread. As on the card: a copy to pageable
// memory, or of much of it, is over when the call returns; a small one from pageable memory has
// left it; any other is under way.
[[nodiscard]] CUresult copy_async(DefaultStream meaning, const CUDA_MEMCPY3D& copy,
                                  CUstream stream);

// The calls without a stream wait, but not for a copy within the card's memory, and are not to be
// captured.
[[nodiscard]] CUresult copy_sync(DefaultStream meaning, const CUDA_MEMCPY3D& copy);

}  // namespace vram::sim
