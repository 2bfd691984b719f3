// Events of the simulated card.
#pragma once

#include <chrono>
#include <memory>
#include <mutex>
#include <vector>

#include "sim/stream.h"

namespace vram::sim {

struct GraphNode;

// A point in a stream that the program keeps by name. Recording again moves it; whoever waited for
// the earlier point still waits for that one. Between a record in a capture and the end of that
// capture the event stands for nodes of the graph instead (`capture`, `captured_after`).
struct Event {
  using Clock = std::chrono::steady_clock;
  // When the card passed the record; written by the record itself, read after its ticket.
  struct Stamp {
    Clock::time_point time;
  };

  Context* context = nullptr;
  unsigned flags = 0;

  std::mutex mutex;  // guards what follows
  Ticket ticket;
  std::shared_ptr<Stamp> stamp;  // null until recorded once
  std::weak_ptr<Capture> capture;
  std::vector<GraphNode*> captured_after;

  [[nodiscard]] CUevent handle() const {
    return reinterpret_cast<CUevent>(const_cast<Event*>(this));
  }
};

// CUDA_ERROR_INVALID_HANDLE for anything that is not a live event.
[[nodiscard]] CUresult find_event(CUevent handle, std::shared_ptr<Event>* out);
[[nodiscard]] std::shared_ptr<Event> create_event(Context& context, unsigned flags);
[[nodiscard]] CUresult destroy_event(CUevent handle);
void destroy_events(const Context& context);

// Puts the record at the end of the stream, outside any capture.
void record_event(const std::shared_ptr<Event>& event, const std::shared_ptr<Stream>& stream);
// Stamps the event from inside an operation of `stream` (an event node of a graph).
void record_event_now(Event& event);
[[nodiscard]] Ticket ticket_of(Event& event);

}  // namespace vram::sim
