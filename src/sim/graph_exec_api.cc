// Executable graphs, their launch and update, graph memory of a device, objects that graphs own.
#include <cuda.h>

#include <mutex>
#include <unordered_map>

#include "sim/capture.h"
#include "sim/graph_exec.h"
#include "sim/operation.h"
#include "sim/pool.h"
#include "sim/stream_entry.h"
#include "sim/try.h"

namespace vram::sim {
namespace {

CUresult instantiate_with_flags(CUgraphExec* out, CUgraph handle, unsigned long long flags) {
  if (out == nullptr) return CUDA_ERROR_INVALID_VALUE;
  Context* context = nullptr;
  VRAM_SIM_TRY(require_usable_context(&context));
  const std::shared_ptr<Graph> graph = find_graph(handle);
  if (!graph) return CUDA_ERROR_INVALID_VALUE;
  std::shared_ptr<GraphExec> exec;
  VRAM_SIM_TRY(instantiate(graph, flags, &exec));
  *out = exec->handle();
  return CUDA_SUCCESS;
}

CUresult instantiate_with_log(CUgraphExec* out, CUgraph graph, CUgraphNode* error, char* log,
                              size_t log_bytes) {
  if (error != nullptr) *error = nullptr;
  if (log != nullptr && log_bytes > 0) *log = '\0';
  return instantiate_with_flags(out, graph, 0);
}

CUresult instantiate_with_parameters(DefaultStream, CUgraphExec* out, CUgraph graph,
                                     CUDA_GRAPH_INSTANTIATE_PARAMS* parameters) {
  if (parameters == nullptr) return CUDA_ERROR_INVALID_VALUE;
  const CUresult result = instantiate_with_flags(out, graph, parameters->flags);
  parameters->hErrNode_out = nullptr;
  parameters->result_out =
      result == CUDA_SUCCESS ? CUDA_GRAPH_INSTANTIATE_SUCCESS : CUDA_GRAPH_INSTANTIATE_ERROR;
  return result;
}

CUresult require_exec(CUgraphExec handle, std::shared_ptr<GraphExec>* out) {
  VRAM_SIM_TRY(require_initialized());
  *out = find_exec(handle);
  return *out ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}

CUresult flags_of(CUgraphExec handle, cuuint64_t* out) {
  if (out == nullptr) return CUDA_ERROR_INVALID_VALUE;
  std::shared_ptr<GraphExec> exec;
  VRAM_SIM_TRY(require_exec(handle, &exec));
  *out = exec->flags;
  return CUDA_SUCCESS;
}

// In a capture a launch becomes a node that holds the graph.
CUresult capture_launch(const GraphExec& exec, const std::shared_ptr<Stream>& stream) {
  const std::lock_guard held(graph_lock());
  if (exec.copy->has_memory_nodes()) return CUDA_ERROR_NOT_SUPPORTED;
  return enqueue(stream, ChildGraphCall{clone_graph(*exec.copy)});
}

CUresult launch_exec(DefaultStream meaning, CUgraphExec handle, CUstream stream_handle) {
  std::shared_ptr<Stream> stream;
  VRAM_SIM_TRY(require_stream(stream_handle, meaning, &stream));
  std::shared_ptr<GraphExec> exec;
  VRAM_SIM_TRY(require_exec(handle, &exec));
  if (capture_of(*stream)) return capture_launch(*exec, stream);
  VRAM_SIM_TRY(refuse_if_capturing(*stream));
  return launch(*exec, stream);
}

CUresult upload_exec(DefaultStream meaning, CUgraphExec handle, CUstream stream_handle) {
  std::shared_ptr<Stream> stream;
  VRAM_SIM_TRY(require_stream(stream_handle, meaning, &stream));
  std::shared_ptr<GraphExec> exec;
  VRAM_SIM_TRY(require_exec(handle, &exec));
  VRAM_SIM_TRY(refuse_if_capturing(*stream));
  return upload(*exec);
}

CUresult destroy(CUgraphExec handle) {
  VRAM_SIM_TRY(require_initialized());
  return destroy_exec(handle);
}

CUresult update_exec(CUgraphExec handle, CUgraph graph_handle, UpdateOutcome* out) {
  std::shared_ptr<GraphExec> exec;
  VRAM_SIM_TRY(require_exec(handle, &exec));
  const std::shared_ptr<Graph> graph = find_graph(graph_handle);
  if (!graph) return CUDA_ERROR_INVALID_VALUE;
  *out = update(*exec, graph);
  return out->result == CU_GRAPH_EXEC_UPDATE_SUCCESS ? CUDA_SUCCESS
                                                     : CUDA_ERROR_GRAPH_EXEC_UPDATE_FAILURE;
}

CUgraphNode handle_or_null(const GraphNode* node) {
  return node != nullptr ? node->handle() : nullptr;
}

CUresult update_v1(CUgraphExec exec, CUgraph graph, CUgraphNode* node,
                   CUgraphExecUpdateResult* result) {
  UpdateOutcome outcome{CU_GRAPH_EXEC_UPDATE_ERROR, nullptr};
  const CUresult answer = update_exec(exec, graph, &outcome);
  if (node != nullptr) *node = handle_or_null(outcome.node);
  if (result != nullptr) *result = outcome.result;
  return answer;
}

CUresult update_v2(CUgraphExec exec, CUgraph graph, CUgraphExecUpdateResultInfo* info) {
  if (info == nullptr) return CUDA_ERROR_INVALID_VALUE;
  UpdateOutcome outcome{CU_GRAPH_EXEC_UPDATE_ERROR, nullptr};
  const CUresult answer = update_exec(exec, graph, &outcome);
  info->result = outcome.result;
  info->errorNode = handle_or_null(outcome.node);
  info->errorFromNode = nullptr;
  return answer;
}

CUresult trim(CUdevice device) {
  VRAM_SIM_TRY(require_initialized());
  VRAM_SIM_TRY(require_device(device));
  graph_memory_trim(device);
  return CUDA_SUCCESS;
}

CUresult get_memory(CUdevice device, CUgraphMem_attribute attribute, void* out) {
  if (out == nullptr) return CUDA_ERROR_INVALID_VALUE;
  VRAM_SIM_TRY(require_initialized());
  VRAM_SIM_TRY(require_device(device));
  const GraphMemory memory = graph_memory_usage(device);
  auto* const value = static_cast<cuuint64_t*>(out);
  switch (attribute) {
    case CU_GRAPH_MEM_ATTR_USED_MEM_CURRENT:
      *value = memory.used;
      return CUDA_SUCCESS;
    case CU_GRAPH_MEM_ATTR_USED_MEM_HIGH:
      *value = memory.used_high;
      return CUDA_SUCCESS;
    case CU_GRAPH_MEM_ATTR_RESERVED_MEM_CURRENT:
      *value = memory.reserved;
      return CUDA_SUCCESS;
    case CU_GRAPH_MEM_ATTR_RESERVED_MEM_HIGH:
      *value = memory.reserved_high;
      return CUDA_SUCCESS;
    default:
      return CUDA_ERROR_INVALID_VALUE;
  }
}

CUresult set_memory(CUdevice device, CUgraphMem_attribute attribute, void* value) {
  // Only the high marks can be set, and only to zero.
  if (value == nullptr || *static_cast<cuuint64_t*>(value) != 0 ||
      (attribute != CU_GRAPH_MEM_ATTR_USED_MEM_HIGH &&
       attribute != CU_GRAPH_MEM_ATTR_RESERVED_MEM_HIGH)) {
    return CUDA_ERROR_INVALID_VALUE;
  }
  VRAM_SIM_TRY(require_initialized());
  VRAM_SIM_TRY(require_device(device));
  graph_memory_reset_high(device, attribute);
  return CUDA_SUCCESS;
}

}  // namespace
}  // namespace vram::sim

using namespace vram::sim;

extern "C" {

VRAM_SIM_ONE(cuGraphInstantiate, instantiate_with_log,
             (CUgraphExec * exec, CUgraph graph, CUgraphNode* error, char* log, size_t log_bytes),
             (exec, graph, error, log, log_bytes))
VRAM_SIM_ONE(cuGraphInstantiate_v2, instantiate_with_log,
             (CUgraphExec * exec, CUgraph graph, CUgraphNode* error, char* log, size_t log_bytes),
             (exec, graph, error, log, log_bytes))
VRAM_SIM_ONE(cuGraphInstantiateWithFlags, instantiate_with_flags,
             (CUgraphExec * exec, CUgraph graph, unsigned long long flags), (exec, graph, flags))
VRAM_SIM_BOTH(cuGraphInstantiateWithParams, _ptsz, instantiate_with_parameters,
              (CUgraphExec * exec, CUgraph graph, CUDA_GRAPH_INSTANTIATE_PARAMS* parameters),
              (exec, graph, parameters))
VRAM_SIM_ONE(cuGraphExecGetFlags, flags_of, (CUgraphExec exec, cuuint64_t* flags), (exec, flags))
VRAM_SIM_BOTH(cuGraphLaunch, _ptsz, launch_exec, (CUgraphExec exec, CUstream stream),
              (exec, stream))
VRAM_SIM_BOTH(cuGraphUpload, _ptsz, upload_exec, (CUgraphExec exec, CUstream stream),
              (exec, stream))
VRAM_SIM_ONE(cuGraphExecDestroy, destroy, (CUgraphExec exec), (exec))
VRAM_SIM_ONE(cuGraphExecUpdate, update_v1,
             (CUgraphExec exec, CUgraph graph, CUgraphNode* node, CUgraphExecUpdateResult* result),
             (exec, graph, node, result))
VRAM_SIM_ONE(cuGraphExecUpdate_v2, update_v2,
             (CUgraphExec exec, CUgraph graph, CUgraphExecUpdateResultInfo* info),
             (exec, graph, info))
VRAM_SIM_ONE(cuDeviceGraphMemTrim, trim, (CUdevice device), (device))
VRAM_SIM_ONE(cuDeviceGetGraphMemAttribute, get_memory,
             (CUdevice device, CUgraphMem_attribute attribute, void* value),
             (device, attribute, value))
VRAM_SIM_ONE(cuDeviceSetGraphMemAttribute, set_memory,
             (CUdevice device, CUgraphMem_attribute attribute, void* value),
             (device, attribute, value))

}  // extern "C"
