#include "sim/stream.h"

#include <atomic>
#include <mutex>
#include <utility>

#include "sim/capture.h"
#include "sim/context.h"
#include "sim/event.h"
#include "sim/scheduler.h"

namespace vram::sim {
namespace {

struct Hooks {
  std::mutex mutex;
  std::vector<SynchronisedHook> synchronised;
};

Hooks& hooks() {
  static Hooks* const instance = new Hooks;
  return *instance;
}

void run_synchronised_hooks(Context& context) {
  std::vector<SynchronisedHook> all;
  {
    const std::lock_guard held(hooks().mutex);
    all = hooks().synchronised;
  }
  for (const SynchronisedHook hook : all) hook(context);
}

CUresult wait_all(const std::vector<Ticket>& tickets, Context& context) {
  for (const Ticket& ticket : tickets) {
    if (!Scheduler::instance().wait(ticket)) return CUDA_ERROR_DEINITIALIZED;
  }
  run_synchronised_hooks(context);
  return context_error(context);
}

}  // namespace

CUresult find_stream(Context& context, CUstream handle, DefaultStream meaning,
                     std::shared_ptr<Stream>* out) {
  return Scheduler::instance().find(context, handle, meaning, out);
}

Context& context_of(const Stream& stream) { return *stream.context; }
uint64_t id_of(const Stream& stream) { return stream.id; }

Ticket submit(const std::shared_ptr<Stream>& stream, Work work, std::vector<Ticket> after) {
  return Scheduler::instance().submit(stream, std::move(work), std::move(after));
}

Ticket last_ticket(const std::shared_ptr<Stream>& stream) {
  return Scheduler::instance().last(stream);
}

bool reached(const Ticket& ticket) { return Scheduler::instance().reached(ticket); }

bool reached(uint64_t stream_id, uint64_t number) {
  return Scheduler::instance().reached(stream_id, number);
}

CUresult wait(const Ticket& ticket, Context& context) { return wait_all({ticket}, context); }

CUresult synchronise_stream(const std::shared_ptr<Stream>& stream) {
  return wait_all(Scheduler::instance().pending(stream), *stream->context);
}

CUresult synchronise_context(Context& context) {
  return wait_all(Scheduler::instance().pending(context), context);
}

void add_synchronised_hook(SynchronisedHook hook) {
  const std::lock_guard held(hooks().mutex);
  hooks().synchronised.push_back(hook);
}

void destroy_execution(Context& context) {
  for (const auto& stream : Scheduler::instance().streams(context)) abandon_capture(*stream);
  Scheduler::instance().destroy_all(context);
  destroy_events(context);
}

CUresult context_error(const Context& context) {
  return context.home().error.load(std::memory_order_acquire);
}

void poison_context(Context& context, CUresult error) {
  CUresult sound = CUDA_SUCCESS;
  context.home().error.compare_exchange_strong(sound, error, std::memory_order_acq_rel);
}

}  // namespace vram::sim
