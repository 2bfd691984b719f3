// Memory of another process, opened by a handle (cuIpc...MemHandle).
#pragma once

#include <cuda.h>

namespace vram::sim {

// CUDA_ERROR_INVALID_VALUE unless `base` is what cuIpcOpenMemHandle gave; a handle opened several
// times in one context is closed as often.
[[nodiscard]] CUresult close_import(CUdeviceptr base);

}  // namespace vram::sim
