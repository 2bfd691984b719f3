// cuMemset…
#include <cuda.h>

#include "sim/capture.h"
#include "sim/operation.h"
#include "sim/stream_entry.h"
#include "sim/transfer.h"
#include "sim/try.h"

namespace vram::sim {
namespace {

template <typename T>
CUDA_MEMSET_NODE_PARAMS describe(CUdeviceptr to, size_t pitch, T value, size_t width,
                                 size_t height) {
  CUDA_MEMSET_NODE_PARAMS fill{};
  fill.dst = to;
  fill.pitch = pitch;
  fill.value = value;
  fill.elementSize = sizeof(T);
  fill.width = width;
  fill.height = height;
  return fill;
}

CUresult fill_async(DefaultStream meaning, const CUDA_MEMSET_NODE_PARAMS& fill, CUstream handle) {
  std::shared_ptr<Stream> stream;
  VRAM_SIM_TRY(require_stream(handle, meaning, &stream));
  // A captured fill may name memory that comes into being with its graph.
  if (!capture_of(*stream)) VRAM_SIM_TRY(check_fill(fill));
  return enqueue(stream, FillCall{fill});
}

// The calls without a stream are as asynchronous as those with one, but not to be captured.
CUresult fill_sync(DefaultStream meaning, const CUDA_MEMSET_NODE_PARAMS& fill) {
  std::shared_ptr<Stream> stream;
  VRAM_SIM_TRY(require_stream(nullptr, meaning, &stream));
  VRAM_SIM_TRY(refuse_if_capturing(*stream));
  VRAM_SIM_TRY(check_capture_allows_unsafe_call());
  VRAM_SIM_TRY(check_fill(fill));
  return enqueue(stream, FillCall{fill});
}

template <typename T>
CUresult row(DefaultStream meaning, CUdeviceptr to, T value, size_t count) {
  return fill_sync(meaning, describe(to, 0, value, count, 1));
}

template <typename T>
CUresult row_async(DefaultStream meaning, CUdeviceptr to, T value, size_t count, CUstream stream) {
  return fill_async(meaning, describe(to, 0, value, count, 1), stream);
}

template <typename T>
CUresult rows(DefaultStream meaning, CUdeviceptr to, size_t pitch, T value, size_t width,
              size_t height) {
  return fill_sync(meaning, describe(to, pitch, value, width, height));
}

template <typename T>
CUresult rows_async(DefaultStream meaning, CUdeviceptr to, size_t pitch, T value, size_t width,
                    size_t height, CUstream stream) {
  return fill_async(meaning, describe(to, pitch, value, width, height), stream);
}

}  // namespace
}  // namespace vram::sim

using namespace vram::sim;

extern "C" {

// The family of one element type: present names, and the two whose addresses have 32 bits.
#define VRAM_SIM_FILL(bits, type)                                                               \
  VRAM_SIM_BOTH(cuMemsetD##bits##_v2, _ptds, row, (CUdeviceptr to, type value, size_t count),   \
                (to, value, count))                                                             \
  VRAM_SIM_BOTH(cuMemsetD2D##bits##_v2, _ptds, rows,                                            \
                (CUdeviceptr to, size_t pitch, type value, size_t width, size_t height),        \
                (to, pitch, value, width, height))                                              \
  VRAM_SIM_BOTH(cuMemsetD##bits##Async, _ptsz, row_async,                                       \
                (CUdeviceptr to, type value, size_t count, CUstream stream),                    \
                (to, value, count, stream))                                                     \
  VRAM_SIM_BOTH(                                                                                \
      cuMemsetD2D##bits##Async, _ptsz, rows_async,                                              \
      (CUdeviceptr to, size_t pitch, type value, size_t width, size_t height, CUstream stream), \
      (to, pitch, value, width, height, stream))                                                \
  CUresult cuMemsetD##bits(CUdeviceptr_v1 to, type value, unsigned count) {                     \
    VRAM_SIM_ENTER();                                                                           \
    return row(DefaultStream::kLegacy, to, value, count);                                       \
  }                                                                                             \
  CUresult cuMemsetD2D##bits(CUdeviceptr_v1 to, unsigned pitch, type value, unsigned width,     \
                             unsigned height) {                                                 \
    VRAM_SIM_ENTER();                                                                           \
    return rows(DefaultStream::kLegacy, to, pitch, value, width, height);                       \
  }

VRAM_SIM_FILL(8, unsigned char)
VRAM_SIM_FILL(16, unsigned short)
VRAM_SIM_FILL(32, unsigned)
#undef VRAM_SIM_FILL

}  // extern "C"
