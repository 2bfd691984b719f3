// cuMemAlloc's memory: slabs for small requests, whole 2 MiB pieces for large ones.
//
// Model. A region is what the card is charged for: a slab of 2 MiB, or one large block. Up to 1 MiB
// a request is carved from a slab of its context, on a granule of 512 bytes; the slab goes back
// with its last block. A region that another process may open is an object of the machine; while
// other processes hold it, its addresses here are not used again.
#pragma once

#include <cuda.h>

#include <cstddef>
#include <cstdint>

#include "sim/context.h"

namespace vram::sim {

struct RegionView {
  CUdeviceptr base = 0;
  size_t bytes = 0;
  int device = 0;
  uint64_t object = 0;
};

// The region of a live block, made an object of the machine if it is none yet.
// CUDA_ERROR_INVALID_VALUE where there is no region, CUDA_ERROR_OUT_OF_MEMORY when the machine can
// hold no more objects.
[[nodiscard]] CUresult share_region(CUdeviceptr address, RegionView* out);

// The context is going: all its blocks, managed and pinned memory.
void free_memory_of(Context& context);

}  // namespace vram::sim
