// Where captures begin and end; see capture.h.

#include "interpose/capture.h"
#include "interpose/export.h"
#include "interpose/trace.h"
#include "residency/gate.h"

namespace vram::interpose {
namespace {

// Counted before it begins: no moment with a capture that is not counted. Whoever shut the gate
// sees the count at rest.
template <typename Call>
CUresult begin(const OnStream& on, Call call) {
  const residency::Through through;
  process().captures.fetch_add(1, std::memory_order_acq_rel);
  const CUresult result = call();
  if (result != CUDA_SUCCESS) {
    process().captures.fetch_sub(1, std::memory_order_acq_rel);
  } else if (is_traced()) {
    note_capture(wire::TraceKind::kCaptureBegin, on);
  }
  return result;
}

// A capture that was invalidated ends, too, with an error of its own.
CUresult end(const OnStream& on, CUresult result) {
  const bool ended = result == CUDA_SUCCESS || result == CUDA_ERROR_STREAM_CAPTURE_INVALIDATED;
  if (ended && may_be_capturing()) process().captures.fetch_sub(1, std::memory_order_acq_rel);
  if (ended && is_traced()) note_capture(wire::TraceKind::kCaptureEnd, on);
  return result;
}

}  // namespace
}  // namespace vram::interpose

using namespace vram::interpose;
using vram::driver::real;

VRAM_EXPORT CUresult cuStreamBeginCapture(CUstream stream) {
  VRAM_ENTER(cuStreamBeginCapture, stream);
  return begin({stream, stream_id}, [&] { return real.cuStreamBeginCapture(stream); });
}

VRAM_EXPORT CUresult cuStreamBeginCapture_ptsz(CUstream stream) {
  VRAM_ENTER(cuStreamBeginCapture_ptsz, stream);
  return begin({stream, stream_id_per_thread},
               [&] { return real.cuStreamBeginCapture_ptsz(stream); });
}

VRAM_EXPORT CUresult cuStreamBeginCapture_v2(CUstream stream, CUstreamCaptureMode mode) {
  VRAM_ENTER(cuStreamBeginCapture_v2, stream, mode);
  return begin({stream, stream_id}, [&] { return real.cuStreamBeginCapture_v2(stream, mode); });
}

VRAM_EXPORT CUresult cuStreamBeginCapture_v2_ptsz(CUstream stream, CUstreamCaptureMode mode) {
  VRAM_ENTER(cuStreamBeginCapture_v2_ptsz, stream, mode);
  return begin({stream, stream_id_per_thread},
               [&] { return real.cuStreamBeginCapture_v2_ptsz(stream, mode); });
}

VRAM_EXPORT CUresult cuStreamBeginCaptureToGraph(CUstream stream, CUgraph graph,
                                                 const CUgraphNode* nodes,
                                                 const CUgraphEdgeData* edges, size_t count,
                                                 CUstreamCaptureMode mode) {
  VRAM_ENTER(cuStreamBeginCaptureToGraph, stream, graph, nodes, edges, count, mode);
  return begin({stream, stream_id}, [&] {
    return real.cuStreamBeginCaptureToGraph(stream, graph, nodes, edges, count, mode);
  });
}

VRAM_EXPORT CUresult cuStreamBeginCaptureToGraph_ptsz(CUstream stream, CUgraph graph,
                                                      const CUgraphNode* nodes,
                                                      const CUgraphEdgeData* edges, size_t count,
                                                      CUstreamCaptureMode mode) {
  VRAM_ENTER(cuStreamBeginCaptureToGraph_ptsz, stream, graph, nodes, edges, count, mode);
  return begin({stream, stream_id_per_thread}, [&] {
    return real.cuStreamBeginCaptureToGraph_ptsz(stream, graph, nodes, edges, count, mode);
  });
}

VRAM_EXPORT CUresult cuStreamEndCapture(CUstream stream, CUgraph* graph) {
  VRAM_ENTER(cuStreamEndCapture, stream, graph);
  return end({stream, stream_id}, real.cuStreamEndCapture(stream, graph));
}

VRAM_EXPORT CUresult cuStreamEndCapture_ptsz(CUstream stream, CUgraph* graph) {
  VRAM_ENTER(cuStreamEndCapture_ptsz, stream, graph);
  return end({stream, stream_id_per_thread}, real.cuStreamEndCapture_ptsz(stream, graph));
}
