#include "sim/image_file.h"

#include <fstream>
#include <iterator>

namespace vram::sim {

CUresult read_image_file(const char* path, std::string* out) {
  std::ifstream file(path, std::ios::binary);
  if (!file) return CUDA_ERROR_FILE_NOT_FOUND;
  out->assign(std::istreambuf_iterator<char>(file), std::istreambuf_iterator<char>());
  return out->empty() ? CUDA_ERROR_INVALID_IMAGE : CUDA_SUCCESS;
}

void clear_jit_logs(unsigned count, const CUjit_option* options, void** values) {
  for (unsigned i = 0; i < count; ++i) {
    switch (options[i]) {
      case CU_JIT_INFO_LOG_BUFFER:
      case CU_JIT_ERROR_LOG_BUFFER:
        if (values[i] != nullptr) *static_cast<char*>(values[i]) = '\0';
        break;
      case CU_JIT_INFO_LOG_BUFFER_SIZE_BYTES:
      case CU_JIT_ERROR_LOG_BUFFER_SIZE_BYTES:
      case CU_JIT_WALL_TIME:
        values[i] = nullptr;  // numbers are stored in the pointer's own bytes
        break;
      default:
        break;
    }
  }
}

}  // namespace vram::sim
