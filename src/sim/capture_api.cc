// cuStreamBeginCapture and its kin.
#include <cuda.h>

#include <algorithm>
#include <vector>

#include "sim/capture.h"
#include "sim/graph.h"
#include "sim/scheduler.h"
#include "sim/stream_entry.h"
#include "sim/try.h"

namespace vram::sim {
namespace {

using StreamRef = std::shared_ptr<Stream>;

bool is_mode(CUstreamCaptureMode mode) {
  return mode == CU_STREAM_CAPTURE_MODE_GLOBAL || mode == CU_STREAM_CAPTURE_MODE_THREAD_LOCAL ||
         mode == CU_STREAM_CAPTURE_MODE_RELAXED;
}

// Nodes by handle, all of one graph. False when one is not.
bool take_nodes(const CUgraphNode* handles, size_t count, const Graph& graph,
                std::vector<GraphNode*>* out) {
  for (size_t i = 0; i < count; ++i) {
    GraphNode* node = find_node(handles[i]);
    if (node == nullptr || node->graph != &graph) return false;
    out->push_back(node);
  }
  return true;
}

CUresult begin(DefaultStream meaning, CUstream handle, CUstreamCaptureMode mode) {
  if (!is_mode(mode)) return CUDA_ERROR_INVALID_VALUE;
  StreamRef stream;
  VRAM_SIM_TRY(require_stream(handle, meaning, &stream));
  return begin_capture(stream, mode, nullptr, {});
}

CUresult begin_v1(DefaultStream meaning, CUstream handle) {
  return begin(meaning, handle, CU_STREAM_CAPTURE_MODE_GLOBAL);
}

CUresult begin_to_graph(DefaultStream meaning, CUstream handle, CUgraph graph_handle,
                        const CUgraphNode* dependencies, const CUgraphEdgeData*, size_t count,
                        CUstreamCaptureMode mode) {
  if (!is_mode(mode) || (count > 0 && dependencies == nullptr)) return CUDA_ERROR_INVALID_VALUE;
  StreamRef stream;
  VRAM_SIM_TRY(require_stream(handle, meaning, &stream));
  const std::shared_ptr<Graph> graph = find_graph(graph_handle);
  std::vector<GraphNode*> nodes;
  if (!graph || !take_nodes(dependencies, count, *graph, &nodes)) return CUDA_ERROR_INVALID_VALUE;
  return begin_capture(stream, mode, graph, std::move(nodes));
}

CUresult end(DefaultStream meaning, CUstream handle, CUgraph* out) {
  if (out == nullptr) return CUDA_ERROR_INVALID_VALUE;
  StreamRef stream;
  VRAM_SIM_TRY(require_stream(handle, meaning, &stream));
  std::shared_ptr<Graph> graph;
  const CUresult result = end_capture(stream, &graph);
  *out = nullptr;  // CUDA leaves no old handle behind where a capture fails
  if (result != CUDA_SUCCESS) return result;
  give_to_program(graph);
  *out = graph->handle();
  return CUDA_SUCCESS;
}

struct CaptureInfo {
  CUstreamCaptureStatus status = CU_STREAM_CAPTURE_STATUS_NONE;
  std::shared_ptr<Capture> capture;  // only while it is active
};

CUresult info_of(DefaultStream meaning, CUstream handle, CaptureInfo* out) {
  StreamRef stream;
  VRAM_SIM_TRY(require_stream(handle, meaning, &stream));
  const std::lock_guard held(graph_lock());
  const std::shared_ptr<Capture> capture = capture_of(*stream);
  if (!capture) {
    // The legacy stream cannot be asked while it could not be used either.
    return capture_blocks_legacy(*stream) ? CUDA_ERROR_STREAM_CAPTURE_IMPLICIT : CUDA_SUCCESS;
  }
  out->status =
      capture->invalidated ? CU_STREAM_CAPTURE_STATUS_INVALIDATED : CU_STREAM_CAPTURE_STATUS_ACTIVE;
  if (!capture->invalidated) out->capture = capture;
  return CUDA_SUCCESS;
}

CUresult is_capturing(DefaultStream meaning, CUstream handle, CUstreamCaptureStatus* out) {
  if (out == nullptr) return CUDA_ERROR_INVALID_VALUE;
  CaptureInfo info;
  VRAM_SIM_TRY(info_of(meaning, handle, &info));
  *out = info.status;
  return CUDA_SUCCESS;
}

CUresult get_info_v2(DefaultStream meaning, CUstream handle, CUstreamCaptureStatus* status,
                     cuuint64_t* id, CUgraph* graph, const CUgraphNode** dependencies,
                     size_t* count) {
  if (status == nullptr) return CUDA_ERROR_INVALID_VALUE;
  StreamRef stream;
  VRAM_SIM_TRY(require_stream(handle, meaning, &stream));
  CaptureInfo info;
  VRAM_SIM_TRY(info_of(meaning, handle, &info));
  *status = info.status;
  if (!info.capture) return CUDA_SUCCESS;
  const std::lock_guard held(graph_lock());
  if (id != nullptr) *id = info.capture->id;
  if (graph != nullptr) *graph = info.capture->graph->handle();
  // A node's handle is its address: the list serves the program as it is.
  const std::vector<GraphNode*>& frontier = info.capture->frontier[stream.get()];
  if (dependencies != nullptr) {
    *dependencies = reinterpret_cast<const CUgraphNode*>(frontier.data());
  }
  if (count != nullptr) *count = frontier.size();
  return CUDA_SUCCESS;
}

CUresult get_info_v1(DefaultStream meaning, CUstream handle, CUstreamCaptureStatus* status,
                     cuuint64_t* id) {
  return get_info_v2(meaning, handle, status, id, nullptr, nullptr, nullptr);
}

CUresult get_info_v3(DefaultStream meaning, CUstream handle, CUstreamCaptureStatus* status,
                     cuuint64_t* id, CUgraph* graph, const CUgraphNode** dependencies,
                     const CUgraphEdgeData** edges, size_t* count) {
  VRAM_SIM_TRY(get_info_v2(meaning, handle, status, id, graph, dependencies, count));
  if (edges != nullptr) *edges = nullptr;  // all edges are plain ones
  return CUDA_SUCCESS;
}

CUresult update(DefaultStream meaning, CUstream handle, CUgraphNode* dependencies, size_t count,
                unsigned flags) {
  if (flags > CU_STREAM_SET_CAPTURE_DEPENDENCIES || (count > 0 && dependencies == nullptr)) {
    return CUDA_ERROR_INVALID_VALUE;
  }
  StreamRef stream;
  VRAM_SIM_TRY(require_stream(handle, meaning, &stream));
  const std::lock_guard held(graph_lock());
  const std::shared_ptr<Capture> capture = capture_of(*stream);
  if (!capture) return CUDA_ERROR_ILLEGAL_STATE;
  if (capture->invalidated) return CUDA_ERROR_STREAM_CAPTURE_INVALIDATED;
  std::vector<GraphNode*> nodes;
  if (!take_nodes(dependencies, count, *capture->graph, &nodes)) return CUDA_ERROR_INVALID_VALUE;
  std::vector<GraphNode*>& frontier = capture->frontier[stream.get()];
  if (flags == CU_STREAM_SET_CAPTURE_DEPENDENCIES) frontier.clear();
  for (GraphNode* node : nodes) {
    if (std::find(frontier.begin(), frontier.end(), node) == frontier.end()) {
      frontier.push_back(node);
    }
  }
  return CUDA_SUCCESS;
}

CUresult update_v2(DefaultStream meaning, CUstream handle, CUgraphNode* dependencies,
                   const CUgraphEdgeData*, size_t count, unsigned flags) {
  return update(meaning, handle, dependencies, count, flags);
}

CUresult exchange_mode(CUstreamCaptureMode* mode) {
  if (mode == nullptr || !is_mode(*mode)) return CUDA_ERROR_INVALID_VALUE;
  VRAM_SIM_TRY(require_initialized());
  *mode = exchange_capture_mode(*mode);
  return CUDA_SUCCESS;
}

}  // namespace
}  // namespace vram::sim

using namespace vram::sim;

extern "C" {

VRAM_SIM_BOTH(cuStreamBeginCapture, _ptsz, begin_v1, (CUstream stream), (stream))
VRAM_SIM_BOTH(cuStreamBeginCapture_v2, _ptsz, begin, (CUstream stream, CUstreamCaptureMode mode),
              (stream, mode))
VRAM_SIM_BOTH(cuStreamBeginCaptureToGraph, _ptsz, begin_to_graph,
              (CUstream stream, CUgraph graph, const CUgraphNode* dependencies,
               const CUgraphEdgeData* edges, size_t count, CUstreamCaptureMode mode),
              (stream, graph, dependencies, edges, count, mode))
VRAM_SIM_BOTH(cuStreamEndCapture, _ptsz, end, (CUstream stream, CUgraph* graph), (stream, graph))
VRAM_SIM_BOTH(cuStreamIsCapturing, _ptsz, is_capturing,
              (CUstream stream, CUstreamCaptureStatus* status), (stream, status))
VRAM_SIM_BOTH(cuStreamGetCaptureInfo, _ptsz, get_info_v1,
              (CUstream stream, CUstreamCaptureStatus* status, cuuint64_t* id),
              (stream, status, id))
VRAM_SIM_BOTH(cuStreamGetCaptureInfo_v2, _ptsz, get_info_v2,
              (CUstream stream, CUstreamCaptureStatus* status, cuuint64_t* id, CUgraph* graph,
               const CUgraphNode** dependencies, size_t* count),
              (stream, status, id, graph, dependencies, count))
VRAM_SIM_BOTH(cuStreamGetCaptureInfo_v3, _ptsz, get_info_v3,
              (CUstream stream, CUstreamCaptureStatus* status, cuuint64_t* id, CUgraph* graph,
               const CUgraphNode** dependencies, const CUgraphEdgeData** edges, size_t* count),
              (stream, status, id, graph, dependencies, edges, count))
VRAM_SIM_BOTH(cuStreamUpdateCaptureDependencies, _ptsz, update,
              (CUstream stream, CUgraphNode* dependencies, size_t count, unsigned flags),
              (stream, dependencies, count, flags))
VRAM_SIM_BOTH(cuStreamUpdateCaptureDependencies_v2, _ptsz, update_v2,
              (CUstream stream, CUgraphNode* dependencies, const CUgraphEdgeData* edges,
               size_t count, unsigned flags),
              (stream, dependencies, edges, count, flags))
VRAM_SIM_ONE(cuThreadExchangeStreamCaptureMode, exchange_mode, (CUstreamCaptureMode * mode), (mode))

}  // extern "C"
