// cuInit: where a process joins its job.

#include "interpose/export.h"

using namespace vram::interpose;
using vram::driver::real;

VRAM_EXPORT CUresult cuInit(unsigned flags) {
  VRAM_LOADED(cuInit);
  Guard guard;
  const CUresult result = real.cuInit(flags);
  if (guard.nested() || result != CUDA_SUCCESS) return result;
  return refused() ? CUDA_ERROR_OPERATING_SYSTEM : result;
}
