// The kernels that compute. The simulator does not interpret device code: a kernel whose name is
// in the table of kernels.cc does its work on the simulated memory, any other does nothing.
#pragma once

#include <cuda.h>

#include <array>
#include <cstddef>
#include <span>
#include <string_view>

namespace vram::sim {

struct KernelCall;

// Does the launch now. CUDA_ERROR_ILLEGAL_ADDRESS when it reaches beyond the card's memory.
using KernelBody = CUresult (*)(const KernelCall& call);

// What is known of a kernel. A C++ name must also have one of the mangled parameter lists, for its
// plain name says nothing about types; the project's own kernels may be declared as one likes.
// `parameter_bytes` are the sizes of the parameters in order, so that a kernel can be launched
// from an image that does not tell them.
struct KnownKernel {
  std::string_view name;
  std::array<std::string_view, 2> mangled_parameters;
  std::span<const size_t> parameter_bytes;
  KernelBody body;
};

// Null when the name is none of the table's.
[[nodiscard]] const KnownKernel* known_kernel(std::string_view name);

}  // namespace vram::sim
