// Streams: the driver keeps some memory on the card for each. Its price is reserved before a stream
// is made, and corrected by a measurement.

#include "interpose/export.h"
#include "interpose/own_pools.h"
#include "interpose/priced.h"
#include "interpose/room.h"

namespace vram::interpose {
namespace {

using driver::real;

// 64 streams cost 32 MiB (docs/design/driver-behaviour.md).
constexpr std::uint64_t kPrice = 512 << 10;

template <typename Call>
CUresult make_stream(Device& device, CUstream* stream, Call call) {
  return with_room_to_stay(device, kPrice, [&] {
    return take_priced(
        device, kPrice, call, [] { return true; }, [&] { real.cuStreamDestroy_v2(*stream); });
  });
}

template <typename Call>
CUresult make_stream_here(CUstream* stream, Call call) {
  Here here{};
  return stream == nullptr || !locate(&here) ? call() : make_stream(*here.device, stream, call);
}

CUresult destroyed(CUresult result, Device* device) {
  if (result == CUDA_SUCCESS && device != nullptr) settle_priced(*device, kPrice);
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
  return make_stream_here(stream, [&] { return real.cuStreamCreate(stream, flags); });
}

VRAM_EXPORT CUresult cuStreamCreateWithPriority(CUstream* stream, unsigned flags, int priority) {
  VRAM_ENTER(cuStreamCreateWithPriority, stream, flags, priority);
  return make_stream_here(stream,
                          [&] { return real.cuStreamCreateWithPriority(stream, flags, priority); });
}

VRAM_EXPORT CUresult cuGreenCtxStreamCreate(CUstream* stream, CUgreenCtx context, unsigned flags,
                                            int priority) {
  VRAM_ENTER(cuGreenCtxStreamCreate, stream, context, flags, priority);
  const auto call = [&] { return real.cuGreenCtxStreamCreate(stream, context, flags, priority); };
  CUcontext own = nullptr;
  Here here{};
  const bool known = stream != nullptr && real.cuCtxFromGreenCtx != nullptr &&
                     real.cuCtxFromGreenCtx(&own, context) == CUDA_SUCCESS &&
                     locate_context(own, &here);
  return known ? make_stream(*here.device, stream, call) : call();
}

VRAM_EXPORT CUresult cuStreamDestroy(CUstream stream) {
  VRAM_PASS_BACK(cuStreamDestroy, stream);
  Device* const device = device_of(stream);
  forget_stream_in_own_pools(stream);
  return destroyed(real.cuStreamDestroy(stream), device);
}

VRAM_EXPORT CUresult cuStreamDestroy_v2(CUstream stream) {
  VRAM_PASS_BACK(cuStreamDestroy_v2, stream);
  Device* const device = device_of(stream);
  forget_stream_in_own_pools(stream);
  return destroyed(real.cuStreamDestroy_v2(stream), device);
}
