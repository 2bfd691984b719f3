#include "library/failure.h"

namespace vram::library {
namespace {

struct LastError {
  std::string message;
  bool lost = false;  // there was no memory for it
};

thread_local LastError last_error;

vram_status status_of(CUresult code) {
  switch (code) {
    case CUDA_ERROR_OUT_OF_MEMORY:
      return VRAM_OUT_OF_MEMORY;
    case CUDA_ERROR_NO_DEVICE:
    case CUDA_ERROR_INVALID_DEVICE:
      return VRAM_NO_DEVICE;
    case CUDA_ERROR_NOT_SUPPORTED:
      return VRAM_NOT_SUPPORTED;
    default:
      return VRAM_DRIVER_ERROR;
  }
}

}  // namespace

vram_status fail(vram_status status, const std::string& message) {
  try {
    last_error.message = message;
    last_error.lost = false;
  } catch (const std::exception&) {
    last_error.lost = true;
  }
  return status;
}

vram_status fail(const pool::Failure& failure) {
  return fail(status_of(failure.code), failure.message);
}

}  // namespace vram::library

extern "C" {

const char* vram_last_error(void) {
  const auto& last = vram::library::last_error;
  return last.lost ? "vram: out of host memory" : last.message.c_str();
}

const char* vram_status_text(vram_status status) {
  switch (status) {
    case VRAM_OK:
      return "success";
    case VRAM_OUT_OF_MEMORY:
      return "out of memory";
    case VRAM_INVALID_ARGUMENT:
      return "invalid argument";
    case VRAM_NOT_A_BLOCK:
      return "not a live block of this pool";
    case VRAM_NO_DEVICE:
      return "no such device";
    case VRAM_NOT_SUPPORTED:
      return "not supported by this driver or card";
    case VRAM_DRIVER_ERROR:
      return "the driver failed";
    case VRAM_INTERNAL_ERROR:
      return "internal error";
  }
  return "unknown status";
}

uint32_t vram_version(void) { return VRAM_VERSION; }
}
