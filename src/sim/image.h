// What a piece of device code declares: kernels, their parameters, variables. Read from PTX text,
// from cubins (ELF) and from the fat binaries that hold them.
#pragma once

#include <cuda.h>

#include <cstddef>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "sim/kernels.h"

namespace vram::sim {

struct Parameter {
  size_t offset = 0;
  size_t bytes = 0;
};

struct KernelInfo {
  std::string name;
  std::vector<Parameter> parameters;
  bool has_parameters = true;  // false: the image did not tell them
  size_t local_bytes = 0;      // a thread
  size_t shared_bytes = 0;     // a block, static
  unsigned registers = 16;
  unsigned max_threads = 1024;  // a block
  unsigned target = 0;          // 90 for sm_90; 0 where it is not known
  const KnownKernel* known = nullptr;
};

struct GlobalInfo {
  std::string name;
  size_t bytes = 0;
  size_t alignment = 1;
  bool is_managed = false;
  std::vector<std::byte> initial;  // shorter than `bytes`: the rest is zero
};

struct Image {
  std::vector<KernelInfo> kernels;
  std::vector<GlobalInfo> globals;
  // The names are packed away: every kernel that is asked for is taken to exist.
  bool is_sealed = false;
};

// Reads an image as cuModuleLoadData takes it. The size is not given: each format tells its own.
// CUDA_ERROR_INVALID_IMAGE, CUDA_ERROR_INVALID_PTX.
[[nodiscard]] CUresult read_image(const void* data, std::shared_ptr<const Image>* out);

// The formats. All return false when the data is not well formed.
[[nodiscard]] bool read_ptx(std::string_view text, Image* out);
[[nodiscard]] bool read_cubin(const std::byte* data, size_t bytes, Image* out);
[[nodiscard]] bool read_fat_binary(const std::byte* data, Image* out);

// Lays parameters out one after the other, each aligned to `alignments[i]`.
[[nodiscard]] std::vector<Parameter> lay_out(const std::vector<size_t>& sizes,
                                             const std::vector<size_t>& alignments);

// A kernel of the table that the image does not describe.
[[nodiscard]] KernelInfo describe_unseen(std::string_view name);

}  // namespace vram::sim
