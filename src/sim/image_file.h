// Images in files, and the options of the compiler that never runs here.
#pragma once

#include <cuda.h>

#include <string>

namespace vram::sim {

// CUDA_ERROR_FILE_NOT_FOUND. Whatever follows the image's own end is harmless.
[[nodiscard]] CUresult read_image_file(const char* path, std::string* out);

// Tells the program that the logs it gave room for are empty.
void clear_jit_logs(unsigned count, const CUjit_option* options, void** values);

}  // namespace vram::sim
