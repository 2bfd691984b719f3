// Streams of the simulated card: queues of work that executor threads run.
//
// Model. A stream runs its operations one after the other, in the order of submission, on some
// executor thread; the submitting thread goes on at once. Operations of different streams are
// ordered only by tickets: an operation may name tickets that must have been reached before it
// starts. The legacy default stream orders itself with every blocking stream of its context by
// the same means (CUDA's documentation, "default stream"); non-blocking streams stand apart.
//
// Threads. Every function here may be called by any thread, also by an operation. One lock guards
// all queues of the process; it is never held while an operation runs or a hook is called.
// Executor threads start with the first operation, take no signals, end after some idle time and
// never run in a forked child, which has none of its parent's work.
#pragma once

#include <cuda.h>

#include <cstdint>
#include <functional>
#include <memory>
#include <vector>

namespace vram::sim {

struct Context;
class Capture;
class Stream;

// What stream 0 means to an entry point: the `_ptsz` and `_ptds` variants say kPerThread.
enum class DefaultStream { kLegacy, kPerThread };

// What one operation does on the card. A result other than CUDA_SUCCESS is an error of the
// context: it sticks, and the operations that follow are dropped.
using Work = std::function<CUresult()>;

// The point in a stream at which all operations up to a certain one have run. A default
// constructed ticket is always reached.
struct Ticket {
  std::shared_ptr<Stream> stream;
  uint64_t number = 0;
};

// The stream that a handle means to the calling thread in `context`: NULL, CU_STREAM_LEGACY,
// CU_STREAM_PER_THREAD or a created one. A created stream brings its own context with it.
// CUDA_ERROR_INVALID_HANDLE when there is none.
[[nodiscard]] CUresult find_stream(Context& context, CUstream handle, DefaultStream meaning,
                                   std::shared_ptr<Stream>* out);

[[nodiscard]] Context& context_of(const Stream& stream);
[[nodiscard]] uint64_t id_of(const Stream& stream);  // unique in the process, never reused

// Puts `work` at the end of `stream`, not to start before `after` is reached.
Ticket submit(const std::shared_ptr<Stream>& stream, Work work, std::vector<Ticket> after = {});

// The ticket of everything submitted to the stream so far.
[[nodiscard]] Ticket last_ticket(const std::shared_ptr<Stream>& stream);
[[nodiscard]] bool reached(const Ticket& ticket);
// As reached(), for a stream given by its id: true also when the stream is gone and drained.
[[nodiscard]] bool reached(uint64_t stream_id, uint64_t number);

// These block until the work is done, then return the context's error if it has one. Where a
// hook is registered it is called before they return. CUDA_ERROR_DEINITIALIZED once the process
// is on its way out, for then nothing runs any more.
[[nodiscard]] CUresult wait(const Ticket& ticket, Context& context);
[[nodiscard]] CUresult synchronise_stream(const std::shared_ptr<Stream>& stream);
[[nodiscard]] CUresult synchronise_context(Context& context);

// Called after a stream, event or context has been waited for, without any lock held: memory
// pools give back what they hold above their threshold. Hooks are added once, never removed.
using SynchronisedHook = void (*)(Context& context);
void add_synchronised_hook(SynchronisedHook hook);

// The context is about to go: drops what has not started, waits for what runs, forgets the
// context's streams and events. Their handles are invalid afterwards.
void destroy_execution(Context& context);

// The error that sticks to a context, CUDA_SUCCESS while it is sound. The first one wins.
[[nodiscard]] CUresult context_error(const Context& context);
void poison_context(Context& context, CUresult error);

// True on an executor thread inside a host function or callback of the program, where CUDA
// forbids its own calls (CUDA_ERROR_NOT_PERMITTED).
[[nodiscard]] bool in_host_function();

// 900, 901 and their kin: what a capture that is under way anywhere in the process says to a call
// that could break it ("unsafe" calls: cuMemAlloc, cuMemFree, pool attributes, ...), given the
// capture mode of the calling thread. Anything but CUDA_SUCCESS has invalidated the capture.
[[nodiscard]] CUresult check_capture_allows_unsafe_call();

}  // namespace vram::sim
