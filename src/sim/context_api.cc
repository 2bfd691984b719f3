// Entry points: contexts, the thread's stack of them, primary contexts.
#include <cuda.h>

#include "sim/context.h"
#include "sim/context_life.h"
#include "sim/driver.h"
#include "sim/entry.h"
#include "sim/stream.h"
#include "sim/try.h"

using namespace vram::sim;

namespace {

constexpr unsigned kApiVersion1 = 3010;
constexpr unsigned kApiVersion2 = 3020;

constexpr unsigned kKnownFlags = CU_CTX_FLAGS_MASK;

CUresult create_and_push(CUcontext* out, unsigned flags, CUdevice device, unsigned api_version) {
  VRAM_SIM_TRY(require_initialized());
  if (out == nullptr || (flags & ~kKnownFlags) != 0) return CUDA_ERROR_INVALID_VALUE;
  VRAM_SIM_TRY(require_device(device));
  Context* context = nullptr;
  VRAM_SIM_TRY(create_context(device, flags, api_version, &context));
  context_stack().push_back(context);
  *out = handle_of(*context);
  return CUDA_SUCCESS;
}

CUresult destroy(CUcontext handle) {
  if (handle == nullptr) return CUDA_ERROR_INVALID_CONTEXT;
  Context* context = nullptr;
  VRAM_SIM_TRY(find_context(handle, &context));
  return destroy_context(*context);
}

CUresult push(CUcontext handle) {
  if (handle == nullptr) return CUDA_ERROR_INVALID_CONTEXT;
  Context* context = nullptr;
  VRAM_SIM_TRY(find_context(handle, &context));
  context_stack().push_back(context);
  return CUDA_SUCCESS;
}

CUresult pop(CUcontext* out) {
  VRAM_SIM_TRY(require_initialized());
  if (context_stack().empty()) return CUDA_ERROR_INVALID_CONTEXT;
  if (out != nullptr) *out = handle_of(*context_stack().back());
  context_stack().pop_back();
  return CUDA_SUCCESS;
}

CUresult release_primary_of(CUdevice device) {
  VRAM_SIM_TRY(require_device(device));
  return release_primary(device);
}

CUresult reset_primary_of(CUdevice device) {
  VRAM_SIM_TRY(require_device(device));
  return reset_primary(device);
}

CUresult set_primary_flags_of(CUdevice device, unsigned flags) {
  VRAM_SIM_TRY(require_device(device));
  if ((flags & ~kKnownFlags) != 0) return CUDA_ERROR_INVALID_VALUE;
  return set_primary_flags(device, flags);
}

}  // namespace

CUresult cuCtxCreate(CUcontext* out, unsigned int flags, CUdevice device) {
  VRAM_SIM_ENTER();
  return create_and_push(out, flags, device, kApiVersion1);
}

CUresult cuCtxCreate_v2(CUcontext* out, unsigned int flags, CUdevice device) {
  VRAM_SIM_ENTER();
  return create_and_push(out, flags, device, kApiVersion2);
}

CUresult cuCtxCreate_v3(CUcontext* out, CUexecAffinityParam*, int, unsigned int flags,
                        CUdevice device) {
  VRAM_SIM_ENTER();
  return create_and_push(out, flags, device, kApiVersion2);
}

CUresult cuCtxCreate_v4(CUcontext* out, CUctxCreateParams*, unsigned int flags, CUdevice device) {
  VRAM_SIM_ENTER();
  return create_and_push(out, flags, device, kApiVersion2);
}

CUresult cuCtxDestroy(CUcontext context) {
  VRAM_SIM_ENTER();
  return destroy(context);
}

CUresult cuCtxDestroy_v2(CUcontext context) {
  VRAM_SIM_ENTER();
  return destroy(context);
}

CUresult cuCtxAttach(CUcontext* out, unsigned int flags) {
  VRAM_SIM_ENTER();
  Context* context = nullptr;
  VRAM_SIM_TRY(require_context(&context));
  if (out == nullptr || flags != 0) return CUDA_ERROR_INVALID_VALUE;
  *out = handle_of(*context);
  return CUDA_SUCCESS;
}

CUresult cuCtxDetach(CUcontext context) {
  VRAM_SIM_ENTER();
  return destroy(context);
}

CUresult cuCtxPushCurrent(CUcontext context) {
  VRAM_SIM_ENTER();
  return push(context);
}

CUresult cuCtxPushCurrent_v2(CUcontext context) {
  VRAM_SIM_ENTER();
  return push(context);
}

CUresult cuCtxPopCurrent(CUcontext* out) {
  VRAM_SIM_ENTER();
  return pop(out);
}

CUresult cuCtxPopCurrent_v2(CUcontext* out) {
  VRAM_SIM_ENTER();
  return pop(out);
}

CUresult cuCtxSetCurrent(CUcontext handle) {
  VRAM_SIM_ENTER();
  VRAM_SIM_TRY(require_initialized());
  Context* context = nullptr;
  if (handle != nullptr) {
    VRAM_SIM_TRY(find_context(handle, &context));
  }
  if (!context_stack().empty()) context_stack().pop_back();
  if (context != nullptr) context_stack().push_back(context);
  return CUDA_SUCCESS;
}

CUresult cuCtxGetCurrent(CUcontext* out) {
  VRAM_SIM_ENTER();
  VRAM_SIM_TRY(require_initialized());
  if (out == nullptr) return CUDA_ERROR_INVALID_VALUE;
  Context* const context = current_context();
  *out = context == nullptr ? nullptr : handle_of(*context);
  return CUDA_SUCCESS;
}

CUresult cuCtxGetDevice(CUdevice* device) {
  VRAM_SIM_ENTER();
  Context* context = nullptr;
  VRAM_SIM_TRY(require_context(&context));
  if (device == nullptr) return CUDA_ERROR_INVALID_VALUE;
  *device = context->device;
  return CUDA_SUCCESS;
}

CUresult cuCtxGetDevice_v2(CUdevice* device, CUcontext handle) {
  VRAM_SIM_ENTER();
  Context* context = nullptr;
  VRAM_SIM_TRY(find_context(handle, &context));
  if (device == nullptr) return CUDA_ERROR_INVALID_VALUE;
  *device = context->device;
  return CUDA_SUCCESS;
}

CUresult cuCtxGetFlags(unsigned int* flags) {
  VRAM_SIM_ENTER();
  Context* context = nullptr;
  VRAM_SIM_TRY(require_context(&context));
  if (flags == nullptr) return CUDA_ERROR_INVALID_VALUE;
  *flags = context->flags;
  return CUDA_SUCCESS;
}

CUresult cuCtxSetFlags(unsigned int flags) {
  VRAM_SIM_ENTER();
  Context* context = nullptr;
  VRAM_SIM_TRY(require_context(&context));
  if ((flags & ~kKnownFlags) != 0) return CUDA_ERROR_INVALID_VALUE;
  context->flags = flags;
  return CUDA_SUCCESS;
}

CUresult cuCtxGetId(CUcontext handle, unsigned long long* id) {
  VRAM_SIM_ENTER();
  Context* context = nullptr;
  VRAM_SIM_TRY(find_context(handle, &context));
  if (id == nullptr) return CUDA_ERROR_INVALID_VALUE;
  *id = context->id;
  return CUDA_SUCCESS;
}

CUresult cuCtxGetApiVersion(CUcontext handle, unsigned int* version) {
  VRAM_SIM_ENTER();
  Context* context = nullptr;
  VRAM_SIM_TRY(find_context(handle, &context));
  if (version == nullptr) return CUDA_ERROR_INVALID_VALUE;
  *version = context->api_version;
  return CUDA_SUCCESS;
}

CUresult cuDevicePrimaryCtxRetain(CUcontext* out, CUdevice device) {
  VRAM_SIM_ENTER();
  VRAM_SIM_TRY(require_device(device));
  if (out == nullptr) return CUDA_ERROR_INVALID_VALUE;
  Context* context = nullptr;
  const CUresult result = retain_primary(device, &context);
  if (result == CUDA_SUCCESS) *out = handle_of(*context);
  return result;
}

CUresult cuDevicePrimaryCtxRelease(CUdevice device) {
  VRAM_SIM_ENTER();
  return release_primary_of(device);
}

CUresult cuDevicePrimaryCtxRelease_v2(CUdevice device) {
  VRAM_SIM_ENTER();
  return release_primary_of(device);
}

CUresult cuDevicePrimaryCtxReset(CUdevice device) {
  VRAM_SIM_ENTER();
  return reset_primary_of(device);
}

CUresult cuDevicePrimaryCtxReset_v2(CUdevice device) {
  VRAM_SIM_ENTER();
  return reset_primary_of(device);
}

CUresult cuDevicePrimaryCtxSetFlags(CUdevice device, unsigned int flags) {
  VRAM_SIM_ENTER();
  return set_primary_flags_of(device, flags);
}

CUresult cuDevicePrimaryCtxSetFlags_v2(CUdevice device, unsigned int flags) {
  VRAM_SIM_ENTER();
  return set_primary_flags_of(device, flags);
}

CUresult cuDevicePrimaryCtxGetState(CUdevice device, unsigned int* flags, int* active) {
  VRAM_SIM_ENTER();
  VRAM_SIM_TRY(require_device(device));
  if (flags == nullptr || active == nullptr) return CUDA_ERROR_INVALID_VALUE;
  *flags = primary_flags(device);
  *active = primary_context(device) != nullptr ? 1 : 0;
  return CUDA_SUCCESS;
}
