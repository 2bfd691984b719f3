#include "sim/capture.h"

#include <algorithm>
#include <iterator>
#include <set>
#include <utility>

#include "sim/scheduler.h"

namespace vram::sim {
namespace {

thread_local CUstreamCaptureMode thread_mode = CU_STREAM_CAPTURE_MODE_GLOBAL;

// The captures under way, in any thread.
std::vector<std::shared_ptr<Capture>>& open_captures() {
  static auto* const all = new std::vector<std::shared_ptr<Capture>>;
  return *all;
}

void close(Capture& capture) {
  for (const auto& stream : capture.members) stream->capture.reset();
  std::erase_if(open_captures(), [&](const auto& other) { return other.get() == &capture; });
}

void join(const std::shared_ptr<Capture>& capture, const std::shared_ptr<Stream>& stream) {
  stream->capture = capture;
  capture->members.push_back(stream);
}

void follow(std::vector<GraphNode*>* frontier, const std::vector<GraphNode*>& more) {
  for (GraphNode* node : more) {
    if (std::find(frontier->begin(), frontier->end(), node) == frontier->end()) {
      frontier->push_back(node);
    }
  }
}

// All streams have joined the origin again: what they end with leads to what it ends with.
bool is_joined(const Capture& capture) {
  std::vector<GraphNode*> open = capture.frontier.at(capture.origin.get());
  std::set<GraphNode*> seen(open.begin(), open.end());
  while (!open.empty()) {
    const GraphNode* node = open.back();
    open.pop_back();
    for (GraphNode* dependency : node->dependencies) {
      if (seen.insert(dependency).second) open.push_back(dependency);
    }
  }
  return std::all_of(capture.frontier.begin(), capture.frontier.end(), [&](const auto& entry) {
    return std::all_of(entry.second.begin(), entry.second.end(),
                       [&](GraphNode* node) { return seen.contains(node); });
  });
}

// The captures that the legacy stream would have to wait for.
std::vector<std::shared_ptr<Capture>> captures_before(const Stream& stream) {
  std::vector<std::shared_ptr<Capture>> found;
  if (stream.kind != Stream::Kind::kLegacy) return found;
  std::copy_if(open_captures().begin(), open_captures().end(), std::back_inserter(found),
               [&](const std::shared_ptr<Capture>& capture) {
                 return std::any_of(
                     capture->members.begin(), capture->members.end(), [&](const auto& member) {
                       return member->context == stream.context && member->is_blocking();
                     });
               });
  return found;
}

// A capturing stream cannot be waited for; trying to breaks its capture.
CUresult refuse_implicit_order(const Stream& stream) {
  const auto found = captures_before(stream);
  for (const auto& capture : found) capture->invalidated = true;
  return found.empty() ? CUDA_SUCCESS : CUDA_ERROR_STREAM_CAPTURE_IMPLICIT;
}

bool forbids_unsafe_calls(const Capture& capture) {
  if (thread_mode == CU_STREAM_CAPTURE_MODE_RELAXED) return false;
  if (capture.thread == thread_number()) return capture.mode != CU_STREAM_CAPTURE_MODE_RELAXED;
  return thread_mode == CU_STREAM_CAPTURE_MODE_GLOBAL &&
         capture.mode == CU_STREAM_CAPTURE_MODE_GLOBAL;
}

}  // namespace

std::shared_ptr<Capture> capture_of(const Stream& stream) {
  const std::lock_guard held(graph_lock());
  return stream.capture;
}

bool capture_blocks_legacy(const Stream& stream) {
  const std::lock_guard held(graph_lock());
  return !captures_before(stream).empty();
}

CUresult begin_capture(const std::shared_ptr<Stream>& stream, CUstreamCaptureMode mode,
                       std::shared_ptr<Graph> graph, std::vector<GraphNode*> dependencies) {
  if (stream->kind == Stream::Kind::kLegacy) return CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED;
  const std::lock_guard held(graph_lock());
  if (stream->capture) return CUDA_ERROR_ILLEGAL_STATE;
  static uint64_t next_id = 1;
  auto capture = std::make_shared<Capture>();
  capture->is_given_graph = graph != nullptr;
  capture->graph = graph ? std::move(graph) : create_graph();
  capture->origin = stream;
  capture->mode = mode;
  capture->thread = thread_number();
  capture->id = next_id++;
  capture->frontier[stream.get()] = std::move(dependencies);
  join(capture, stream);
  open_captures().push_back(std::move(capture));
  return CUDA_SUCCESS;
}

CUresult end_capture(const std::shared_ptr<Stream>& stream, std::shared_ptr<Graph>* out) {
  const std::lock_guard held(graph_lock());
  const std::shared_ptr<Capture> capture = stream->capture;
  if (!capture) return CUDA_ERROR_ILLEGAL_STATE;
  if (capture->origin != stream) return CUDA_ERROR_STREAM_CAPTURE_UNMATCHED;
  if (capture->mode != CU_STREAM_CAPTURE_MODE_RELAXED && capture->thread != thread_number()) {
    return CUDA_ERROR_STREAM_CAPTURE_WRONG_THREAD;
  }
  close(*capture);
  if (capture->invalidated) return CUDA_ERROR_STREAM_CAPTURE_INVALIDATED;
  if (!is_joined(*capture)) return CUDA_ERROR_STREAM_CAPTURE_UNJOINED;
  *out = capture->graph;
  return CUDA_SUCCESS;
}

void abandon_capture(Stream& stream) {
  const std::lock_guard held(graph_lock());
  const std::shared_ptr<Capture> capture = stream.capture;
  if (!capture) return;
  capture->invalidated = true;
  if (capture->origin.get() == &stream) close(*capture);
}

CUresult capture_operation(const std::shared_ptr<Stream>& stream, Operation* operation,
                           bool* captured) {
  const std::lock_guard held(graph_lock());
  const std::shared_ptr<Capture>& capture = stream->capture;
  if (!capture) return refuse_implicit_order(*stream);
  *captured = true;
  if (capture->invalidated) return CUDA_ERROR_STREAM_CAPTURE_INVALIDATED;
  std::vector<GraphNode*>& frontier = capture->frontier[stream.get()];
  frontier = {add_node(*capture->graph, std::move(*operation), *stream->context, frontier)};
  return CUDA_SUCCESS;
}

CUresult refuse_if_capturing(const Stream& stream) {
  const std::lock_guard held(graph_lock());
  if (!stream.capture) return refuse_implicit_order(stream);
  if (stream.capture->invalidated) return CUDA_ERROR_STREAM_CAPTURE_INVALIDATED;
  stream.capture->invalidated = true;
  return CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED;
}

CUresult refuse_if_capturing(Context& context) {
  const std::lock_guard held(graph_lock());
  bool refused = false;
  for (const auto& capture : open_captures()) {
    for (const auto& member : capture->members) {
      if (member->context != &context) continue;
      capture->invalidated = true;
      refused = true;
    }
  }
  return refused ? CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED : CUDA_SUCCESS;
}

bool capture_event_record(const std::shared_ptr<Stream>& stream,
                          const std::shared_ptr<Event>& event, CUresult* result) {
  const std::lock_guard held(graph_lock());
  const std::shared_ptr<Capture>& capture = stream->capture;
  if (!capture) {
    *result = refuse_implicit_order(*stream);
    return *result != CUDA_SUCCESS;
  }
  *result = CUDA_ERROR_STREAM_CAPTURE_INVALIDATED;
  if (capture->invalidated) return true;
  const std::lock_guard event_held(event->mutex);
  event->capture = capture;
  event->captured_after = capture->frontier[stream.get()];
  *result = CUDA_SUCCESS;
  return true;
}

bool capture_event_wait(const std::shared_ptr<Stream>& stream, const std::shared_ptr<Event>& event,
                        CUresult* result) {
  const std::lock_guard held(graph_lock());
  std::shared_ptr<Capture> of_event;
  std::vector<GraphNode*> nodes;
  {
    const std::lock_guard event_held(event->mutex);
    of_event = event->capture.lock();
    nodes = event->captured_after;
  }
  const bool is_open = of_event && of_event->origin->capture == of_event;
  if (!stream->capture && !is_open) {
    *result = refuse_implicit_order(*stream);
    return *result != CUDA_SUCCESS;
  }
  *result = CUDA_SUCCESS;
  if (stream->capture && stream->capture->invalidated) {
    *result = CUDA_ERROR_STREAM_CAPTURE_INVALIDATED;
  } else if (!is_open) {
    // What happens outside cannot be waited for inside.
    stream->capture->invalidated = true;
    *result = CUDA_ERROR_STREAM_CAPTURE_ISOLATION;
  } else if (of_event->invalidated) {
    *result = CUDA_ERROR_STREAM_CAPTURE_INVALIDATED;
  } else if (stream->kind == Stream::Kind::kLegacy) {
    of_event->invalidated = true;
    *result = CUDA_ERROR_STREAM_CAPTURE_IMPLICIT;
  } else if (stream->capture && stream->capture != of_event) {
    stream->capture->invalidated = true;
    of_event->invalidated = true;
    *result = CUDA_ERROR_STREAM_CAPTURE_MERGE;
  } else {
    if (!stream->capture) join(of_event, stream);
    follow(&of_event->frontier[stream.get()], nodes);
  }
  return true;
}

bool is_captured(Event& event) {
  const std::lock_guard held(graph_lock());
  const std::lock_guard event_held(event.mutex);
  const std::shared_ptr<Capture> capture = event.capture.lock();
  return capture && capture->origin->capture == capture;
}

CUstreamCaptureMode exchange_capture_mode(CUstreamCaptureMode mode) {
  return std::exchange(thread_mode, mode);
}

CUresult check_capture_allows_unsafe_call() {
  const std::lock_guard held(graph_lock());
  CUresult result = CUDA_SUCCESS;
  for (const auto& capture : open_captures()) {
    if (!forbids_unsafe_calls(*capture)) continue;
    capture->invalidated = true;
    result = CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED;
  }
  return result;
}

}  // namespace vram::sim
