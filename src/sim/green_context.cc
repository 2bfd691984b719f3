#include "sim/green_context.h"

#include <list>
#include <mutex>

#include "sim/context_life.h"
#include "sim/identity.h"
#include "sim/try.h"

namespace vram::sim {
namespace {

struct Family {
  std::mutex mutex;
  std::list<GreenContext> all;  // never shorter
};

Family& family() {
  static Family* const instance = new Family;
  return *instance;
}

CUgreenCtx handle_of(const GreenContext& green) {
  return reinterpret_cast<CUgreenCtx>(const_cast<GreenContext*>(&green));
}

}  // namespace

CUresult make_green(const Description& part, CUgreenCtx* out) {
  Context* context = nullptr;
  VRAM_SIM_TRY(create_green(part.device, &context));
  const std::lock_guard held(family().mutex);
  *out = handle_of(family().all.emplace_back(GreenContext{context, part}));
  return CUDA_SUCCESS;
}

CUresult find_green(CUgreenCtx handle, GreenContext* out) {
  VRAM_SIM_TRY(require_initialized());
  const std::lock_guard held(family().mutex);
  for (const GreenContext& green : family().all) {
    if (handle_of(green) != handle) continue;
    if (!green.context->alive) return CUDA_ERROR_CONTEXT_IS_DESTROYED;
    *out = green;
    return CUDA_SUCCESS;
  }
  return CUDA_ERROR_INVALID_CONTEXT;
}

CUgreenCtx green_handle_of(const Context& context) {
  const std::lock_guard held(family().mutex);
  for (const GreenContext& green : family().all) {
    if (green.context == &context) return handle_of(green);
  }
  return nullptr;
}

CUdevResource part_of(const Context& context) {
  const std::lock_guard held(family().mutex);
  for (const GreenContext& green : family().all) {
    if (green.context == &context) {
      return multiprocessors(context.device, green.part.multiprocessors);
    }
  }
  return multiprocessors(context.device, kMultiprocessors);
}

}  // namespace vram::sim
