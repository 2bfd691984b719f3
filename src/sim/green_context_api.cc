// Entry points: green contexts and the parts of a device that they are made of.
#include <cuda.h>

#include "sim/context.h"
#include "sim/context_life.h"
#include "sim/device_resource.h"
#include "sim/entry.h"
#include "sim/green_context.h"
#include "sim/identity.h"
#include "sim/try.h"

using namespace vram::sim;

namespace {

constexpr unsigned kSplitFlags = CU_DEV_SM_RESOURCE_SPLIT_IGNORE_SM_COSCHEDULING |
                                 CU_DEV_SM_RESOURCE_SPLIT_MAX_POTENTIAL_CLUSTER_SIZE;

CUresult check_resource(const CUdevResource* out, CUdevResourceType type) {
  if (out == nullptr) return CUDA_ERROR_INVALID_VALUE;
  return type == CU_DEV_RESOURCE_TYPE_SM ? CUDA_SUCCESS : CUDA_ERROR_INVALID_RESOURCE_TYPE;
}

}  // namespace

CUresult cuDeviceGetDevResource(CUdevice device, CUdevResource* out, CUdevResourceType type) {
  VRAM_SIM_ENTER();
  VRAM_SIM_TRY(require_device(device));
  VRAM_SIM_TRY(check_resource(out, type));
  *out = multiprocessors(device, kMultiprocessors);
  return CUDA_SUCCESS;
}

CUresult cuCtxGetDevResource(CUcontext handle, CUdevResource* out, CUdevResourceType type) {
  VRAM_SIM_ENTER();
  if (handle == nullptr) return CUDA_ERROR_INVALID_CONTEXT;
  Context* context = nullptr;
  VRAM_SIM_TRY(find_context(handle, &context));
  VRAM_SIM_TRY(check_resource(out, type));
  *out = part_of(*context);
  return CUDA_SUCCESS;
}

CUresult cuGreenCtxGetDevResource(CUgreenCtx handle, CUdevResource* out, CUdevResourceType type) {
  VRAM_SIM_ENTER();
  GreenContext green;
  VRAM_SIM_TRY(find_green(handle, &green));
  VRAM_SIM_TRY(check_resource(out, type));
  *out = part_of(*green.context);
  return CUDA_SUCCESS;
}

CUresult cuDevSmResourceSplitByCount(CUdevResource* result, unsigned* groups,
                                     const CUdevResource* from, CUdevResource* rest, unsigned flags,
                                     unsigned least) {
  VRAM_SIM_ENTER();
  VRAM_SIM_TRY(require_initialized());
  const bool no_room = result != nullptr && groups != nullptr && *groups == 0;
  if (groups == nullptr || from == nullptr || no_room || (flags & ~kSplitFlags) != 0) {
    return CUDA_ERROR_INVALID_VALUE;
  }
  return split(*from, flags, least, result, groups, rest);
}

CUresult cuDevResourceGenerateDesc(CUdevResourceDesc* out, CUdevResource* resources,
                                   unsigned count) {
  VRAM_SIM_ENTER();
  VRAM_SIM_TRY(require_initialized());
  if (out == nullptr || resources == nullptr || count == 0) return CUDA_ERROR_INVALID_VALUE;
  return describe(resources, count, out);
}

CUresult cuGreenCtxCreate(CUgreenCtx* out, CUdevResourceDesc description, CUdevice device,
                          unsigned flags) {
  VRAM_SIM_ENTER();
  VRAM_SIM_TRY(require_device(device));
  Description part;
  if (out == nullptr || flags != CU_GREEN_CTX_DEFAULT_STREAM ||
      !find_description(description, &part) || part.device != device) {
    return CUDA_ERROR_INVALID_VALUE;
  }
  return make_green(part, out);
}

CUresult cuGreenCtxDestroy(CUgreenCtx handle) {
  VRAM_SIM_ENTER();
  GreenContext green;
  VRAM_SIM_TRY(find_green(handle, &green));
  return destroy_green(*green.context);
}

CUresult cuCtxFromGreenCtx(CUcontext* out, CUgreenCtx handle) {
  VRAM_SIM_ENTER();
  GreenContext green;
  VRAM_SIM_TRY(find_green(handle, &green));
  if (out == nullptr) return CUDA_ERROR_INVALID_VALUE;
  *out = handle_of(*green.context);
  return CUDA_SUCCESS;
}

CUresult cuGreenCtxGetId(CUgreenCtx handle, unsigned long long* id) {
  VRAM_SIM_ENTER();
  GreenContext green;
  VRAM_SIM_TRY(find_green(handle, &green));
  if (id == nullptr) return CUDA_ERROR_INVALID_VALUE;
  *id = green.context->id;
  return CUDA_SUCCESS;
}
