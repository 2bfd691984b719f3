// Contexts of the simulated driver: what a process holds on a card, and which one a thread uses.
//
// Model. A context belongs to one device ordinal of this process (after CUDA_VISIBLE_DEVICES). The
// primary context of a device exists once; retaining it creates it, the last release or a reset
// ends it, and its handle stays the same over its lives. A context costs card memory while it is
// alive, and everything allocated in it goes with it.
//
// A green context is a part of the device's multiprocessors: it has streams of its own, and
// whatever else is made while it is current belongs to the primary context, its home, which it
// retains.
//
// Ownership. A Context object is never deleted, so that a stale handle or reference is harmless;
// `alive` says whether it may be used. Threads: each has its own stack of current contexts; all
// functions may be called from any thread.
#pragma once

#include <cuda.h>

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <mutex>

namespace vram::sim {

struct Context {
  int device = 0;
  uint64_t id = 0;  // cuCtxGetId: unique in the process, a new one for each life
  bool primary = false;
  Context* green_home = nullptr;  // of a green context: the primary one
  unsigned api_version = 3020;
  std::atomic<unsigned> flags{0};
  std::atomic<bool> alive{false};
  // What went wrong on the card; sticks for the context's life (sim/stream.h, poison_context()).
  std::atomic<CUresult> error{CUDA_SUCCESS};

  std::mutex mutex;  // guards what follows
  size_t stack_bytes = 1024;
  size_t local_bytes = 1024;  // a thread's local memory that the card has room for
  size_t printf_bytes = 1048576;
  size_t heap_bytes = 8388608;
  size_t sync_depth = 2;
  size_t pending_launches = 2048;
  size_t l2_fetch_bytes = 64;
  size_t persisting_l2_bytes = 0;
  size_t charged_bytes =
      0;  // of the card, for the context itself (not for what is allocated in it)
  CUfunc_cache cache_config = CU_FUNC_CACHE_PREFER_NONE;
  CUsharedconfig shared_config = CU_SHARED_MEM_CONFIG_DEFAULT_BANK_SIZE;

  // Where what is made in it belongs.
  [[nodiscard]] Context& home() { return green_home == nullptr ? *this : *green_home; }
  [[nodiscard]] const Context& home() const { return green_home == nullptr ? *this : *green_home; }
};

// CUDA_ERROR_NOT_INITIALIZED before cuInit and in a child of a process that called it.
[[nodiscard]] CUresult require_initialized();

// As above, then CUDA_ERROR_INVALID_CONTEXT without a context and CUDA_ERROR_CONTEXT_IS_DESTROYED
// with a dead one. Each
// entry point that works "in the current context" begins with it; `*out`, set on success only, is
// that context's home.
[[nodiscard]] CUresult require_context(Context** out);

// Checks the ordinal of a cuDevice... or cuCtxCreate call: CUDA_ERROR_INVALID_DEVICE.
[[nodiscard]] CUresult require_device(CUdevice device);

// A handle as the program passed it; NULL means the thread's own. CUDA_ERROR_INVALID_CONTEXT when
// it is no context, CUDA_ERROR_CONTEXT_IS_DESTROYED when it is no longer one.
[[nodiscard]] CUresult find_context(CUcontext handle, Context** out);

[[nodiscard]] inline CUcontext handle_of(Context& context) {
  return reinterpret_cast<CUcontext>(&context);
}

// The thread's current context, or null.
[[nodiscard]] Context* current_context();

// The primary context if it is alive, else null.
[[nodiscard]] Context* primary_context(int device);

// Card memory the context itself needs (streams, modules' overhead): given back with the context.
// CUDA_ERROR_OUT_OF_MEMORY when the card has no room.
[[nodiscard]] CUresult charge_context(Context& context, size_t bytes);
void uncharge_context(Context& context, size_t bytes);

// A kernel of so much local memory a thread is about to be launched: the card keeps room for every
// thread it can hold, from now until the limit CU_LIMIT_STACK_SIZE is set again.
[[nodiscard]] CUresult require_local_memory(Context& context, size_t bytes_per_thread);

// Called when a context goes, before its memory does; added once per subject, never removed.
using ContextHook = void (*)(Context& context);
void add_context_destroyed_hook(ContextHook hook);

}  // namespace vram::sim
