// Kernel launches: what CUDA checks before it takes one, and running it.
#pragma once

#include <cuda.h>

#include "sim/module.h"
#include "sim/operation.h"

namespace vram::sim {

// Limits of every simulated card (compute capability 9.0).
inline constexpr unsigned kMaxBlockThreads = 1024;
inline constexpr unsigned kDefaultSharedBytes = 49152;  // a block's, unless it asks for more
inline constexpr unsigned kMaxSharedBytes = 232448;

struct LaunchShape {
  std::array<unsigned, 3> grid;
  std::array<unsigned, 3> block;
  unsigned shared_bytes;
};

// Fills `*out` from a launch as the program asked for it; copies the arguments, for they may change
// once the launch returns. CUDA_ERROR_INVALID_VALUE, CUDA_ERROR_INVALID_HANDLE,
// CUDA_ERROR_LAUNCH_OUT_OF_RESOURCES.
[[nodiscard]] CUresult prepare_kernel(Context& context, CUfunction function,
                                      const LaunchShape& shape, void** parameters, void** extra,
                                      KernelCall* out);

// Card memory that the kernel needs before it can be put on a stream.
[[nodiscard]] CUresult provide_for_kernel(const KernelCall& call);

// An attribute as it was set, or what the image says. A kernel's settings hold for a device, and
// reach the functions made from it there.
[[nodiscard]] int function_attribute(Function& function, CUfunction_attribute attribute);
[[nodiscard]] CUresult set_function_attribute(Function& function, CUfunction_attribute attribute,
                                              int value);
[[nodiscard]] int kernel_attribute(Kernel& kernel, int device, CUfunction_attribute attribute);
[[nodiscard]] CUresult set_kernel_attribute(Kernel& kernel, int device,
                                            CUfunction_attribute attribute, int value);

// CUDA_ERROR_INVALID_VALUE for an index beyond the last parameter.
[[nodiscard]] CUresult parameter_of(const KernelInfo& info, size_t index, size_t* offset,
                                    size_t* bytes);

}  // namespace vram::sim
