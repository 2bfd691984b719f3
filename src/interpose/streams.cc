// Streams: the driver keeps some memory on the card for each. Its price is reserved before a stream
// is made, and corrected by a measurement.

#include "interpose/export.h"
#include "interpose/priced.h"

namespace vram::interpose {
namespace {

using driver::real;

// 64 streams cost 32 MiB (docs/design/driver-behaviour.md).
constexpr std::uint64_t kPrice = 512 << 10;

template <typename Call>
CUresult make_stream(CUstream* stream, Call call) {
  Here here{};
  if (stream == nullptr || !locate(&here)) return call();
  return take_priced(*here.device, kPrice, call, [&] { real.cuStreamDestroy_v2(*stream); });
}

CUresult destroyed(CUresult result, Device* device) {
  if (result == CUDA_SUCCESS && device != nullptr) settle_priced(*device, kPrice);
  return result;
}

CUresult remeasured(CUresult result, Device* device) {
  if (result == CUDA_SUCCESS && device != nullptr) measure(*device);
  return result;
}

Device* device_of(CUstream stream) {
  CUcontext context = nullptr;
  Here here{};
  if (real.cuStreamGetCtx == nullptr || real.cuStreamGetCtx(stream, &context) != CUDA_SUCCESS ||
      !locate_context(context, &here)) {
    return nullptr;
  }
  return here.device;
}

}  // namespace
}  // namespace vram::interpose

using namespace vram::interpose;
using vram::driver::real;

VRAM_EXPORT CUresult cuStreamCreate(CUstream* stream, unsigned flags) {
  VRAM_ENTER(cuStreamCreate, stream, flags);
  return make_stream(stream, [&] { return real.cuStreamCreate(stream, flags); });
}

VRAM_EXPORT CUresult cuStreamCreateWithPriority(CUstream* stream, unsigned flags, int priority) {
  VRAM_ENTER(cuStreamCreateWithPriority, stream, flags, priority);
  return make_stream(stream,
                     [&] { return real.cuStreamCreateWithPriority(stream, flags, priority); });
}

VRAM_EXPORT CUresult cuGreenCtxStreamCreate(CUstream* stream, CUgreenCtx context, unsigned flags,
                                            int priority) {
  VRAM_ENTER(cuGreenCtxStreamCreate, stream, context, flags, priority);
  const CUresult result = real.cuGreenCtxStreamCreate(stream, context, flags, priority);
  return remeasured(result, result == CUDA_SUCCESS ? device_of(*stream) : nullptr);
}

VRAM_EXPORT CUresult cuStreamDestroy(CUstream stream) {
  VRAM_ENTER(cuStreamDestroy, stream);
  Device* const device = device_of(stream);
  return destroyed(real.cuStreamDestroy(stream), device);
}

VRAM_EXPORT CUresult cuStreamDestroy_v2(CUstream stream) {
  VRAM_ENTER(cuStreamDestroy_v2, stream);
  Device* const device = device_of(stream);
  return destroyed(real.cuStreamDestroy_v2(stream), device);
}
