// Parts of a device that a green context is made of: its multiprocessors.
//
// Model. A resource is a number of multiprocessors; in the bytes that CUDA keeps for itself it
// carries where it comes from. What a split made cannot be split again until it is a context's. A
// descriptor is a sum of resources, and lives as long as the process, since nothing destroys one.
//
// Threads: any.
#pragma once

#include <cuda.h>

namespace vram::sim {

// All multiprocessors of a device, or `count` of them that a context has.
[[nodiscard]] CUdevResource multiprocessors(int device, unsigned count);

// Groups of at least `least` multiprocessors, `*groups` of them at most; what is left over goes to
// `rest`. `result` null: only counts. CUDA_ERROR_INVALID_RESOURCE_TYPE for another kind,
// CUDA_ERROR_INVALID_RESOURCE_CONFIGURATION when there is not one group or no split is allowed.
[[nodiscard]] CUresult split(const CUdevResource& from, unsigned flags, unsigned least,
                             CUdevResource* result, unsigned* groups, CUdevResource* rest);

struct Description {
  int device = 0;
  unsigned multiprocessors = 0;
};

// CUDA_ERROR_INVALID_RESOURCE_CONFIGURATION unless all are of one device, and of one split.
[[nodiscard]] CUresult describe(const CUdevResource* resources, unsigned count,
                                CUdevResourceDesc* out);
// False when there is no such descriptor.
[[nodiscard]] bool find_description(CUdevResourceDesc handle, Description* out);

}  // namespace vram::sim
