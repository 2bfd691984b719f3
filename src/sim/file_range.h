// Bytes of a shared file as an allocation of this process: what it opened of another process, or of
// another interface.
//
// Threads: any.
#pragma once

#include <cuda.h>

#include <cstdint>

#include "sim/memory.h"

namespace vram::sim {

// The pages that an allocation's bytes lie in.
struct FileRange {
  CUdeviceptr pages = 0;
  uint64_t bytes = 0;
};

// Maps the file's bytes from `offset` on, as many as the allocation has, gives it its base and
// registers it. CUDA_ERROR_OUT_OF_MEMORY when there are no addresses to be had.
[[nodiscard]] CUresult map_file_range(int file, uint64_t offset, Allocation* allocation,
                                      FileRange* out);
// The allocation is no longer registered, or never was.
void unmap_file_range(const FileRange& range);

}  // namespace vram::sim
