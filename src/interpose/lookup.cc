// cuGetProcAddress: the driver chooses the function (by version and stream mode), and when it is
// one we govern, its handler is given out in its place. Which one that is, its address tells.

#include "interpose/export.h"

using vram::driver::governed;
using vram::driver::real;

VRAM_EXPORT CUresult cuGetProcAddress_v2(const char* symbol, void** function, int version,
                                         cuuint64_t flags, CUdriverProcAddressQueryResult* status) {
  VRAM_LOADED(cuGetProcAddress_v2);
  const CUresult result = real.cuGetProcAddress_v2(symbol, function, version, flags, status);
  if (result == CUDA_SUCCESS && function != nullptr) *function = governed(*function);
  return result;
}

VRAM_EXPORT CUresult cuGetProcAddress(const char* symbol, void** function, int version,
                                      cuuint64_t flags) {
  VRAM_LOADED(cuGetProcAddress);
  const CUresult result = real.cuGetProcAddress(symbol, function, version, flags);
  if (result == CUDA_SUCCESS && function != nullptr) *function = governed(*function);
  return result;
}
