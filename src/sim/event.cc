#include "sim/event.h"

#include <unordered_map>
#include <utility>

namespace vram::sim {
namespace {

struct Registry {
  std::mutex mutex;
  std::unordered_map<CUevent, std::shared_ptr<Event>> events;
};

// Never destroyed: executor threads may outlive main().
Registry& registry() {
  static Registry* const instance = new Registry;
  return *instance;
}

}  // namespace

CUresult find_event(CUevent handle, std::shared_ptr<Event>* out) {
  Registry& all = registry();
  const std::lock_guard held(all.mutex);
  const auto found = all.events.find(handle);
  if (found == all.events.end()) return CUDA_ERROR_INVALID_HANDLE;
  *out = found->second;
  return CUDA_SUCCESS;
}

std::shared_ptr<Event> create_event(Context& context, unsigned flags) {
  auto event = std::make_shared<Event>();
  event->context = &context;
  event->flags = flags;
  Registry& all = registry();
  const std::lock_guard held(all.mutex);
  all.events[event->handle()] = event;
  return event;
}

CUresult destroy_event(CUevent handle) {
  Registry& all = registry();
  const std::lock_guard held(all.mutex);
  return all.events.erase(handle) == 1 ? CUDA_SUCCESS : CUDA_ERROR_INVALID_HANDLE;
}

void destroy_events(const Context& context) {
  Registry& all = registry();
  const std::lock_guard held(all.mutex);
  std::erase_if(all.events, [&](const auto& entry) { return entry.second->context == &context; });
}

void record_event(const std::shared_ptr<Event>& event, const std::shared_ptr<Stream>& stream) {
  auto stamp = std::make_shared<Event::Stamp>();
  const std::lock_guard held(event->mutex);
  event->ticket = submit(stream, [stamp] {
    stamp->time = Event::Clock::now();
    return CUDA_SUCCESS;
  });
  event->stamp = std::move(stamp);
  event->capture.reset();
  event->captured_after.clear();
}

void record_event_now(Event& event) {
  auto stamp = std::make_shared<Event::Stamp>();
  stamp->time = Event::Clock::now();
  const std::lock_guard held(event.mutex);
  event.ticket = {};
  event.stamp = std::move(stamp);
}

Ticket ticket_of(Event& event) {
  const std::lock_guard held(event.mutex);
  return event.ticket;
}

}  // namespace vram::sim
