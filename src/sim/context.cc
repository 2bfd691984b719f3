#include "sim/context.h"

#include <pthread.h>

#include <vector>

#include "sim/context_life.h"
#include "sim/device_memory.h"
#include "sim/driver.h"
#include "sim/graph_pool_life.h"
#include "sim/identity.h"
#include "sim/memory.h"
#include "sim/pool_life.h"
#include "sim/stream.h"
#include "sim/try.h"

namespace vram::sim {
namespace {

struct Primary {
  Context* context = nullptr;  // once made, for good
  unsigned references = 0;
  unsigned flags = 0;
};

struct Contexts {
  std::mutex mutex;
  std::vector<Context*> all;
  Primary primary[kMaxCards];
  std::vector<ContextHook> hooks;
  uint64_t next_id = 1;
};

Contexts& contexts() {
  static Contexts* const instance = new Contexts;
  return *instance;
}

// Not an object with a destructor: exit handlers call the driver in the main thread after its
// thread-local objects are gone.
thread_local std::vector<Context*>* t_stack = nullptr;

void end_stack(void*) {
  delete t_stack;
  t_stack = nullptr;
}

pthread_key_t make_end_of_thread() {
  pthread_key_t key = 0;
  ::pthread_key_create(&key, end_stack);
  return key;
}

// The caller holds the lock.
CUresult bring_to_life(Context& context, unsigned flags) {
  if (charge(context.device, kContextBytes) != CUDA_SUCCESS) return CUDA_ERROR_OUT_OF_MEMORY;
  driver().machine->count_context(card_of(context.device), 1);
  context.id = contexts().next_id++;
  context.flags = flags;
  context.charged_bytes = kContextBytes;
  context.alive = true;
  return CUDA_SUCCESS;
}

void reset_limits(Context& context) {
  const Context fresh;
  context.error = CUDA_SUCCESS;
  context.stack_bytes = fresh.stack_bytes;
  context.local_bytes = fresh.local_bytes;
  context.printf_bytes = fresh.printf_bytes;
  context.heap_bytes = fresh.heap_bytes;
  context.sync_depth = fresh.sync_depth;
  context.pending_launches = fresh.pending_launches;
  context.l2_fetch_bytes = fresh.l2_fetch_bytes;
  context.persisting_l2_bytes = fresh.persisting_l2_bytes;
  context.cache_config = fresh.cache_config;
  context.shared_config = fresh.shared_config;
}

bool device_has_context(int device) {
  const std::lock_guard held(contexts().mutex);
  for (const Context* const context : contexts().all) {
    if (context->device == device && context->alive) return true;
  }
  return false;
}

// Without the lock: executors and hooks call back.
void end_life(Context& context) {
  if (!context.alive.exchange(false)) return;
  destroy_execution(context);
  std::vector<ContextHook> hooks;
  {
    const std::lock_guard held(contexts().mutex);
    hooks = contexts().hooks;
  }
  for (const ContextHook hook : hooks) hook(context);
  free_memory_of(context);
  if (!device_has_context(context.device)) {
    drop_pool_memory(context.device);
    drop_graph_memory(context.device);
  }
  const std::lock_guard held(context.mutex);
  uncharge(context.device, context.charged_bytes);
  context.charged_bytes = 0;
  reset_limits(context);
  driver().machine->count_context(card_of(context.device), -1);
}

}  // namespace

CUresult create_context(int device, unsigned flags, unsigned api_version, Context** out) {
  const std::lock_guard held(contexts().mutex);
  auto* context = new Context;
  context->device = device;
  context->api_version = api_version;
  if (const CUresult result = bring_to_life(*context, flags); result != CUDA_SUCCESS) {
    delete context;
    return result;
  }
  contexts().all.push_back(context);
  *out = context;
  return CUDA_SUCCESS;
}

CUresult destroy_context(Context& context) {
  if (context.primary || context.green_home != nullptr) return CUDA_ERROR_INVALID_CONTEXT;
  end_life(context);
  if (current_context() == &context) t_stack->pop_back();
  return CUDA_SUCCESS;
}

CUresult retain_primary(int device, Context** out) {
  const std::lock_guard held(contexts().mutex);
  Primary& primary = contexts().primary[device];
  if (primary.context == nullptr) {
    primary.context = new Context;
    primary.context->device = device;
    primary.context->primary = true;
    contexts().all.push_back(primary.context);
  }
  if (!primary.context->alive) {
    VRAM_SIM_TRY(bring_to_life(*primary.context, primary.flags));
  }
  ++primary.references;
  *out = primary.context;
  return CUDA_SUCCESS;
}

CUresult release_primary(int device) {
  Context* last = nullptr;
  {
    const std::lock_guard held(contexts().mutex);
    Primary& primary = contexts().primary[device];
    if (primary.references == 0) return CUDA_ERROR_INVALID_CONTEXT;
    if (--primary.references == 0) last = primary.context;
  }
  if (last != nullptr) end_life(*last);
  return CUDA_SUCCESS;
}

CUresult reset_primary(int device) {
  Context* context = nullptr;
  {
    const std::lock_guard held(contexts().mutex);
    context = contexts().primary[device].context;
  }
  if (context != nullptr) end_life(*context);
  return CUDA_SUCCESS;
}

CUresult set_primary_flags(int device, unsigned flags) {
  const std::lock_guard held(contexts().mutex);
  Primary& primary = contexts().primary[device];
  primary.flags = flags;
  if (primary.context != nullptr && primary.context->alive) primary.context->flags = flags;
  return CUDA_SUCCESS;
}

unsigned primary_flags(int device) {
  const std::lock_guard held(contexts().mutex);
  return contexts().primary[device].flags;
}

CUresult create_green(int device, Context** out) {
  Context* home = nullptr;
  VRAM_SIM_TRY(retain_primary(device, &home));
  const CUresult result = create_context(device, home->flags, home->api_version, out);
  if (result != CUDA_SUCCESS) {
    (void)release_primary(device);
    return result;
  }
  (*out)->green_home = home;
  return CUDA_SUCCESS;
}

CUresult destroy_green(Context& context) {
  end_life(context);
  if (current_context() == &context) t_stack->pop_back();
  return release_primary(context.device);
}

Context* primary_context(int device) {
  const std::lock_guard held(contexts().mutex);
  Context* const context = contexts().primary[device].context;
  return context != nullptr && context->alive ? context : nullptr;
}

std::vector<Context*>& context_stack() {
  static const pthread_key_t end_of_thread = make_end_of_thread();
  if (t_stack == nullptr) {
    t_stack = new std::vector<Context*>;
    ::pthread_setspecific(end_of_thread, t_stack);
  }
  return *t_stack;
}

Context* current_context() {
  return t_stack == nullptr || t_stack->empty() ? nullptr : t_stack->back();
}

CUresult require_context(Context** out) {
  VRAM_SIM_TRY(require_initialized());
  Context* const context = current_context();
  if (context == nullptr) return CUDA_ERROR_INVALID_CONTEXT;
  Context& home = context->home();
  if (!context->alive.load(std::memory_order_acquire) ||
      !home.alive.load(std::memory_order_acquire)) {
    return CUDA_ERROR_CONTEXT_IS_DESTROYED;
  }
  if (const CUresult error = context_error(home); error != CUDA_SUCCESS) return error;
  *out = &home;
  return CUDA_SUCCESS;
}

CUresult find_context(CUcontext handle, Context** out) {
  if (handle == nullptr) return require_context(out);
  VRAM_SIM_TRY(require_initialized());
  const std::lock_guard held(contexts().mutex);
  for (Context* const context : contexts().all) {
    if (handle_of(*context) != handle) continue;
    if (!context->alive) return CUDA_ERROR_CONTEXT_IS_DESTROYED;
    *out = context;
    return CUDA_SUCCESS;
  }
  return CUDA_ERROR_INVALID_CONTEXT;
}

CUresult charge_context(Context& context, size_t bytes) {
  const std::lock_guard held(context.mutex);
  const CUresult result = charge(context.device, bytes);
  if (result == CUDA_SUCCESS) context.charged_bytes += bytes;
  return result;
}

void uncharge_context(Context& context, size_t bytes) {
  const std::lock_guard held(context.mutex);
  if (bytes > context.charged_bytes) return;  // the context went in the meantime
  context.charged_bytes -= bytes;
  uncharge(context.device, bytes);
}

CUresult set_local_memory(Context& context, size_t bytes_per_thread) {
  const std::lock_guard held(context.mutex);
  const size_t now = context.local_bytes;
  if (bytes_per_thread > now) {
    const size_t more = (bytes_per_thread - now) * kResidentThreads;
    VRAM_SIM_TRY(charge(context.device, more));
    context.charged_bytes += more;
  } else {
    const size_t less = (now - bytes_per_thread) * kResidentThreads;
    uncharge(context.device, less);
    context.charged_bytes -= less;
  }
  context.local_bytes = bytes_per_thread;
  return CUDA_SUCCESS;
}

CUresult require_local_memory(Context& context, size_t bytes_per_thread) {
  {
    const std::lock_guard held(context.mutex);
    if (bytes_per_thread <= context.local_bytes) return CUDA_SUCCESS;
  }
  return set_local_memory(context, bytes_per_thread);
}

void add_context_destroyed_hook(ContextHook hook) {
  const std::lock_guard held(contexts().mutex);
  contexts().hooks.push_back(hook);
}

}  // namespace vram::sim
