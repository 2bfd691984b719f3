// Entry points: limits and configuration of a context.
#include <cuda.h>

#include <mutex>

#include "sim/context.h"
#include "sim/context_life.h"
#include "sim/entry.h"
#include "sim/try.h"

using namespace vram::sim;

namespace {

// What a kernel of compute capability 9.0 may ask for.
constexpr size_t kLargestLocalBytes = 512u << 10;

// The member a limit is kept in, null for an unknown one.
size_t* limit_of(Context& context, CUlimit limit) {
  switch (limit) {
    case CU_LIMIT_STACK_SIZE:
      return &context.stack_bytes;
    case CU_LIMIT_PRINTF_FIFO_SIZE:
      return &context.printf_bytes;
    case CU_LIMIT_MALLOC_HEAP_SIZE:
      return &context.heap_bytes;
    case CU_LIMIT_DEV_RUNTIME_SYNC_DEPTH:
      return &context.sync_depth;
    case CU_LIMIT_DEV_RUNTIME_PENDING_LAUNCH_COUNT:
      return &context.pending_launches;
    case CU_LIMIT_MAX_L2_FETCH_GRANULARITY:
      return &context.l2_fetch_bytes;
    case CU_LIMIT_PERSISTING_L2_CACHE_SIZE:
      return &context.persisting_l2_bytes;
    default:
      return nullptr;
  }
}

}  // namespace

CUresult cuCtxSetLimit(CUlimit limit, size_t value) {
  VRAM_SIM_ENTER();
  Context* context = nullptr;
  VRAM_SIM_TRY(require_context(&context));
  size_t* const kept = limit_of(*context, limit);
  if (kept == nullptr) return CUDA_ERROR_UNSUPPORTED_LIMIT;
  if (limit == CU_LIMIT_STACK_SIZE) {
    if (value > kLargestLocalBytes) return CUDA_ERROR_INVALID_VALUE;
    VRAM_SIM_TRY(set_local_memory(*context, value));
  }
  const std::lock_guard held(context->mutex);
  *kept = value;
  return CUDA_SUCCESS;
}

CUresult cuCtxGetLimit(size_t* value, CUlimit limit) {
  VRAM_SIM_ENTER();
  Context* context = nullptr;
  VRAM_SIM_TRY(require_context(&context));
  if (value == nullptr) return CUDA_ERROR_INVALID_VALUE;
  const size_t* const kept = limit_of(*context, limit);
  if (kept == nullptr) return CUDA_ERROR_UNSUPPORTED_LIMIT;
  const std::lock_guard held(context->mutex);
  *value = *kept;
  return CUDA_SUCCESS;
}

CUresult cuCtxGetCacheConfig(CUfunc_cache* config) {
  VRAM_SIM_ENTER();
  Context* context = nullptr;
  VRAM_SIM_TRY(require_context(&context));
  if (config == nullptr) return CUDA_ERROR_INVALID_VALUE;
  const std::lock_guard held(context->mutex);
  *config = context->cache_config;
  return CUDA_SUCCESS;
}

CUresult cuCtxSetCacheConfig(CUfunc_cache config) {
  VRAM_SIM_ENTER();
  Context* context = nullptr;
  VRAM_SIM_TRY(require_context(&context));
  const std::lock_guard held(context->mutex);
  context->cache_config = config;
  return CUDA_SUCCESS;
}

CUresult cuCtxGetSharedMemConfig(CUsharedconfig* config) {
  VRAM_SIM_ENTER();
  Context* context = nullptr;
  VRAM_SIM_TRY(require_context(&context));
  if (config == nullptr) return CUDA_ERROR_INVALID_VALUE;
  const std::lock_guard held(context->mutex);
  *config = context->shared_config;
  return CUDA_SUCCESS;
}

CUresult cuCtxSetSharedMemConfig(CUsharedconfig config) {
  VRAM_SIM_ENTER();
  Context* context = nullptr;
  VRAM_SIM_TRY(require_context(&context));
  const std::lock_guard held(context->mutex);
  context->shared_config = config;
  return CUDA_SUCCESS;
}

CUresult cuCtxGetStreamPriorityRange(int* least, int* greatest) {
  VRAM_SIM_ENTER();
  Context* context = nullptr;
  VRAM_SIM_TRY(require_context(&context));
  if (least != nullptr) *least = 0;
  if (greatest != nullptr) *greatest = -5;
  return CUDA_SUCCESS;
}

CUresult cuCtxResetPersistingL2Cache(void) {
  VRAM_SIM_ENTER();
  Context* context = nullptr;
  return require_context(&context);
}

CUresult cuCtxGetExecAffinity(CUexecAffinityParam* affinity, CUexecAffinityType type) {
  VRAM_SIM_ENTER();
  Context* context = nullptr;
  VRAM_SIM_TRY(require_context(&context));
  if (affinity == nullptr || type != CU_EXEC_AFFINITY_TYPE_SM_COUNT) {
    return CUDA_ERROR_INVALID_VALUE;
  }
  return CUDA_ERROR_UNSUPPORTED_EXEC_AFFINITY;
}
