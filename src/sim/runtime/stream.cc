// Streams, events, capture and graphs.
#include "sim/runtime/runtime.h"

namespace vram::sim::runtime {
namespace {

CUstreamCaptureStatus* as_driver(cudaStreamCaptureStatus* status) {
  return reinterpret_cast<CUstreamCaptureStatus*>(status);
}

}  // namespace
}  // namespace vram::sim::runtime

using namespace vram::sim::runtime;

extern "C" {

VRAM_RT(cudaStreamCreate, (cudaStream_t * stream), { return cuStreamCreate(stream, 0); })
VRAM_RT(cudaStreamCreateWithFlags, (cudaStream_t * stream, unsigned flags),
        { return cuStreamCreate(stream, flags); })
VRAM_RT(cudaStreamCreateWithPriority, (cudaStream_t * stream, unsigned flags, int priority),
        { return cuStreamCreateWithPriority(stream, flags, priority); })
VRAM_RT(cudaStreamDestroy, (cudaStream_t stream), { return cuStreamDestroy(stream); })
VRAM_RT_STREAM(cudaStreamSynchronize, (cudaStream_t stream), (stream),
               { return cuStreamSynchronize(stream); })
VRAM_RT_STREAM(cudaStreamQuery, (cudaStream_t stream), (stream), { return cuStreamQuery(stream); })
VRAM_RT_STREAM(cudaStreamWaitEvent, (cudaStream_t stream, cudaEvent_t event, unsigned flags),
               (stream, event, flags), { return cuStreamWaitEvent(stream, event, flags); })
VRAM_RT_STREAM(cudaStreamGetFlags, (cudaStream_t stream, unsigned* flags), (stream, flags),
               { return cuStreamGetFlags(stream, flags); })
VRAM_RT_STREAM(cudaStreamGetPriority, (cudaStream_t stream, int* priority), (stream, priority),
               { return cuStreamGetPriority(stream, priority); })
VRAM_RT_STREAM(cudaStreamGetId, (cudaStream_t stream, unsigned long long* id), (stream, id),
               { return cuStreamGetId(stream, id); })
VRAM_RT_STREAM(cudaStreamAddCallback,
               (cudaStream_t stream, cudaStreamCallback_t callback, void* argument, unsigned flags),
               (stream, callback, argument, flags), {
                 return cuStreamAddCallback(stream, reinterpret_cast<CUstreamCallback>(callback),
                                            argument, flags);
               })
VRAM_RT_STREAM(cudaStreamAttachMemAsync,
               (cudaStream_t stream, void* pointer, size_t bytes, unsigned flags),
               (stream, pointer, bytes, flags),
               { return cuStreamAttachMemAsync(stream, address_of(pointer), bytes, flags); })

VRAM_RT(cudaEventCreate, (cudaEvent_t * event), { return cuEventCreate(event, 0); })
VRAM_RT(cudaEventCreateWithFlags, (cudaEvent_t * event, unsigned flags),
        { return cuEventCreate(event, flags); })
VRAM_RT(cudaEventDestroy, (cudaEvent_t event), { return cuEventDestroy(event); })
VRAM_RT(cudaEventQuery, (cudaEvent_t event), { return cuEventQuery(event); })
VRAM_RT(cudaEventSynchronize, (cudaEvent_t event), { return cuEventSynchronize(event); })
VRAM_RT(cudaEventElapsedTime, (float* ms, cudaEvent_t from, cudaEvent_t to),
        { return cuEventElapsedTime(ms, from, to); })
VRAM_RT_STREAM(cudaEventRecord, (cudaEvent_t event, cudaStream_t stream), (event, stream),
               { return cuEventRecord(event, stream); })
VRAM_RT_STREAM(cudaEventRecordWithFlags, (cudaEvent_t event, cudaStream_t stream, unsigned flags),
               (event, stream, flags), { return cuEventRecordWithFlags(event, stream, flags); })

VRAM_RT_STREAM(cudaStreamBeginCapture, (cudaStream_t stream, cudaStreamCaptureMode mode),
               (stream, mode),
               { return cuStreamBeginCapture(stream, static_cast<CUstreamCaptureMode>(mode)); })
VRAM_RT_STREAM(cudaStreamEndCapture, (cudaStream_t stream, cudaGraph_t* graph), (stream, graph),
               { return cuStreamEndCapture(stream, graph); })
VRAM_RT_STREAM(cudaStreamIsCapturing, (cudaStream_t stream, cudaStreamCaptureStatus* status),
               (stream, status), { return cuStreamIsCapturing(stream, as_driver(status)); })
VRAM_RT(cudaThreadExchangeStreamCaptureMode, (cudaStreamCaptureMode * mode),
        { return cuThreadExchangeStreamCaptureMode(reinterpret_cast<CUstreamCaptureMode*>(mode)); })

VRAM_RT(cudaGraphCreate, (cudaGraph_t * graph, unsigned flags),
        { return cuGraphCreate(graph, flags); })
VRAM_RT(cudaGraphDestroy, (cudaGraph_t graph), { return cuGraphDestroy(graph); })
VRAM_RT(cudaGraphClone, (cudaGraph_t * copy, cudaGraph_t graph),
        { return cuGraphClone(copy, graph); })
VRAM_RT(cudaGraphGetNodes, (cudaGraph_t graph, cudaGraphNode_t* nodes, size_t* count),
        { return cuGraphGetNodes(graph, nodes, count); })
VRAM_RT(cudaGraphInstantiate, (cudaGraphExec_t * exec, cudaGraph_t graph, unsigned long long flags),
        { return cuGraphInstantiate(exec, graph, flags); })
VRAM_RT(cudaGraphInstantiateWithFlags,
        (cudaGraphExec_t * exec, cudaGraph_t graph, unsigned long long flags),
        { return cuGraphInstantiate(exec, graph, flags); })
VRAM_RT_STREAM(cudaGraphLaunch, (cudaGraphExec_t exec, cudaStream_t stream), (exec, stream),
               { return cuGraphLaunch(exec, stream); })
VRAM_RT_STREAM(cudaGraphUpload, (cudaGraphExec_t exec, cudaStream_t stream), (exec, stream),
               { return cuGraphUpload(exec, stream); })
VRAM_RT(cudaGraphExecDestroy, (cudaGraphExec_t exec), { return cuGraphExecDestroy(exec); })
VRAM_RT(cudaGraphExecUpdate,
        (cudaGraphExec_t exec, cudaGraph_t graph, cudaGraphExecUpdateResultInfo* info), {
          static_assert(sizeof(CUgraphExecUpdateResultInfo) ==
                        sizeof(cudaGraphExecUpdateResultInfo));
          return cuGraphExecUpdate(exec, graph,
                                   reinterpret_cast<CUgraphExecUpdateResultInfo*>(info));
        })

}  // extern "C"
