// Memory of cuMemAlloc opened by other processes (cuIpc...MemHandle).
//
// Model. A handle names a region of the exporter: slabs are shared whole. The importer maps the
// exporter's pages, so both see the same bytes, and holds the region's object, so that the memory
// lives on when the exporter frees it or dies. A handle opened again gives the same address and is
// closed as often.
//
// Threads: any.
#pragma once

#include <cuda.h>

#include "sim/context.h"

namespace vram::sim {

[[nodiscard]] CUresult export_block(CUdeviceptr address, CUipcMemHandle* out);
// CUDA_ERROR_INVALID_CONTEXT in the process that exported it, CUDA_ERROR_INVALID_VALUE when nobody
// has the memory any more.
[[nodiscard]] CUresult open_block(Context& context, const CUipcMemHandle& handle, CUdeviceptr* out);
// CUDA_ERROR_INVALID_VALUE unless the address lies in an open import.
[[nodiscard]] CUresult close_import(CUdeviceptr address);

}  // namespace vram::sim
