// Stream capture: what is submitted to a capturing stream becomes a node of a graph.
//
// A capture begins on one stream, spreads to others through events recorded inside it, and ends on
// the stream it began on, when all others have joined again. Something forbidden in between
// invalidates it: every later call on its streams says so, and its end yields no graph. All state
// is guarded by graph_lock().
#pragma once

#include <map>
#include <memory>
#include <vector>

#include "sim/graph.h"
#include "sim/stream.h"

namespace vram::sim {

class Capture {
 public:
  std::shared_ptr<Graph> graph;
  std::shared_ptr<Stream> origin;
  CUstreamCaptureMode mode = CU_STREAM_CAPTURE_MODE_GLOBAL;
  uint64_t thread = 0;  // that began it
  uint64_t id = 0;
  bool is_given_graph = false;  // cuStreamBeginCaptureToGraph
  bool invalidated = false;
  // What the next node of a stream will follow.
  std::map<const Stream*, std::vector<GraphNode*>> frontier;
  std::vector<std::shared_ptr<Stream>> members;
};

// The capture that the stream takes part in, or null.
[[nodiscard]] std::shared_ptr<Capture> capture_of(const Stream& stream);

// `graph` null: a new one. `dependencies` are nodes of the given graph.
[[nodiscard]] CUresult begin_capture(const std::shared_ptr<Stream>& stream,
                                     CUstreamCaptureMode mode, std::shared_ptr<Graph> graph,
                                     std::vector<GraphNode*> dependencies);
// Ends the capture in any case except 901's kin that leave it open (wrong stream or thread).
[[nodiscard]] CUresult end_capture(const std::shared_ptr<Stream>& stream,
                                   std::shared_ptr<Graph>* out);

// The stream goes: a capture that it takes part in cannot be completed any more.
void abandon_capture(Stream& stream);

// Turns the operation into a node if the stream is capturing; `*captured` says so, and the
// operation has then been moved from. Otherwise answers whether the stream may be used at all.
[[nodiscard]] CUresult capture_operation(const std::shared_ptr<Stream>& stream,
                                         Operation* operation, bool* captured);

// Waiting for or asking about a stream or context that captures is forbidden, and breaks it.
[[nodiscard]] CUresult refuse_if_capturing(const Stream& stream);
[[nodiscard]] CUresult refuse_if_capturing(Context& context);

// The stream is a legacy default stream that would have to wait for a capturing one.
[[nodiscard]] bool capture_blocks_legacy(const Stream& stream);

// True when the record or the wait happened inside a capture; the result is then in `*result`.
[[nodiscard]] bool capture_event_record(const std::shared_ptr<Stream>& stream,
                                        const std::shared_ptr<Event>& event, CUresult* result);
[[nodiscard]] bool capture_event_wait(const std::shared_ptr<Stream>& stream,
                                      const std::shared_ptr<Event>& event, CUresult* result);
// The event stands for nodes of a capture that is still open.
[[nodiscard]] bool is_captured(Event& event);

// The calling thread's mode; returns the one before.
CUstreamCaptureMode exchange_capture_mode(CUstreamCaptureMode mode);

}  // namespace vram::sim
