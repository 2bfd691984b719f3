#include "sim/graph_parameters.h"

#include <utility>

#include "sim/graph_memory.h"
#include "sim/launch.h"
#include "sim/module.h"
#include "sim/try.h"

namespace vram::sim {
namespace {

// The context that parameters name, or the thread's own.
CUresult choose_context(Context& current, CUcontext named, Context** out) {
  if (named == nullptr) {
    *out = &current;
    return CUDA_SUCCESS;
  }
  return find_context(named, out);
}

template <typename Call>
CUresult event_content(Context& current, CUevent handle, NodeContent* out) {
  std::shared_ptr<Event> event;
  VRAM_SIM_TRY(find_event(handle, &event));
  *out = {Call{std::move(event)}, &current};
  return CUDA_SUCCESS;
}

CUDA_KERNEL_NODE_PARAMS from_v3(const CUDA_KERNEL_NODE_PARAMS_v3& in) {
  CUDA_KERNEL_NODE_PARAMS out{};
  out.func = in.func;
  out.gridDimX = in.gridDimX;
  out.gridDimY = in.gridDimY;
  out.gridDimZ = in.gridDimZ;
  out.blockDimX = in.blockDimX;
  out.blockDimY = in.blockDimY;
  out.blockDimZ = in.blockDimZ;
  out.sharedMemBytes = in.sharedMemBytes;
  out.kernelParams = in.kernelParams;
  out.extra = in.extra;
  out.kern = in.kern;
  out.ctx = in.ctx;
  return out;
}

CUDA_MEMSET_NODE_PARAMS from_v2(const CUDA_MEMSET_NODE_PARAMS_v2& in) {
  CUDA_MEMSET_NODE_PARAMS out{};
  out.dst = in.dst;
  out.pitch = in.pitch;
  out.value = in.value;
  out.elementSize = in.elementSize;
  out.width = in.width;
  out.height = in.height;
  return out;
}

CUresult allocation_content_v2(Context& current, CUDA_MEM_ALLOC_NODE_PARAMS_v2* inout,
                               NodeContent* out) {
  CUDA_MEM_ALLOC_NODE_PARAMS parameters{};
  parameters.poolProps = inout->poolProps;
  parameters.accessDescs = inout->accessDescs;
  parameters.accessDescCount = inout->accessDescCount;
  parameters.bytesize = inout->bytesize;
  VRAM_SIM_TRY(allocation_content(current, &parameters, out));
  inout->dptr = parameters.dptr;
  return CUDA_SUCCESS;
}

CUresult memory_operations_content_v2(Context& current, const CUDA_BATCH_MEM_OP_NODE_PARAMS_v2& in,
                                      NodeContent* out) {
  CUDA_BATCH_MEM_OP_NODE_PARAMS parameters{};
  parameters.ctx = in.ctx;
  parameters.count = in.count;
  parameters.paramArray = in.paramArray;
  parameters.flags = in.flags;
  return memory_operations_content(current, &parameters, out);
}

}  // namespace

CUresult kernel_content(Context& current, const CUDA_KERNEL_NODE_PARAMS& from, NodeContent* out) {
  Context* context = nullptr;
  VRAM_SIM_TRY(choose_context(current, from.ctx, &context));
  const CUfunction function =
      from.func != nullptr ? from.func : reinterpret_cast<CUfunction>(from.kern);
  KernelCall call;
  VRAM_SIM_TRY(prepare_kernel(*context, function,
                              {{from.gridDimX, from.gridDimY, from.gridDimZ},
                               {from.blockDimX, from.blockDimY, from.blockDimZ},
                               from.sharedMemBytes},
                              from.kernelParams, from.extra, &call));
  *out = {std::move(call), context};
  return CUDA_SUCCESS;
}

CUresult copy_content(Context& current, const CUDA_MEMCPY3D* from, CUcontext named,
                      NodeContent* out) {
  if (from == nullptr) return CUDA_ERROR_INVALID_VALUE;
  Context* context = nullptr;
  VRAM_SIM_TRY(choose_context(current, named, &context));
  *out = {CopyCall{*from}, context};
  return CUDA_SUCCESS;
}

CUresult fill_content(Context& current, const CUDA_MEMSET_NODE_PARAMS* from, CUcontext named,
                      NodeContent* out) {
  if (from == nullptr) return CUDA_ERROR_INVALID_VALUE;
  const unsigned size = from->elementSize;
  if (size != 1 && size != 2 && size != 4) return CUDA_ERROR_INVALID_VALUE;
  Context* context = nullptr;
  VRAM_SIM_TRY(choose_context(current, named, &context));
  *out = {FillCall{*from}, context};
  return CUDA_SUCCESS;
}

CUresult host_content(Context& current, const CUDA_HOST_NODE_PARAMS* from, NodeContent* out) {
  if (from == nullptr || from->fn == nullptr) return CUDA_ERROR_INVALID_VALUE;
  *out = {HostCall{from->fn, from->userData}, &current};
  return CUDA_SUCCESS;
}

CUresult child_content(Context& current, CUgraph handle, CUgraphChildGraphNodeOwnership ownership,
                       NodeContent* out) {
  const std::shared_ptr<Graph> graph = find_graph(handle);
  if (!graph) return CUDA_ERROR_INVALID_VALUE;
  if (ownership == CU_GRAPH_CHILD_GRAPH_OWNERSHIP_MOVE) {
    *out = {ChildGraphCall{graph, true}, &current};
    return CUDA_SUCCESS;
  }
  if (ownership != CU_GRAPH_CHILD_GRAPH_OWNERSHIP_CLONE) return CUDA_ERROR_INVALID_VALUE;
  if (graph->has_memory_nodes() || graph->moved) return CUDA_ERROR_NOT_SUPPORTED;
  *out = {ChildGraphCall{clone_graph(*graph)}, &current};
  return CUDA_SUCCESS;
}

CUresult record_content(Context& current, CUevent event, NodeContent* out) {
  return event_content<EventRecordCall>(current, event, out);
}

CUresult wait_content(Context& current, CUevent event, NodeContent* out) {
  return event_content<EventWaitCall>(current, event, out);
}

CUresult memory_operations_content(Context& current, const CUDA_BATCH_MEM_OP_NODE_PARAMS* from,
                                   NodeContent* out) {
  if (from == nullptr || (from->count > 0 && from->paramArray == nullptr)) {
    return CUDA_ERROR_INVALID_VALUE;
  }
  Context* context = nullptr;
  VRAM_SIM_TRY(choose_context(current, from->ctx, &context));
  *out = {MemoryOpsCall{{from->paramArray, from->paramArray + from->count}}, context};
  return CUDA_SUCCESS;
}

CUresult free_content(Context& current, CUdeviceptr address, NodeContent* out) {
  if (!is_graph_address(address)) return CUDA_ERROR_INVALID_VALUE;
  *out = {FreeCall{address}, &current};
  return CUDA_SUCCESS;
}

CUresult allocation_content(Context& current, CUDA_MEM_ALLOC_NODE_PARAMS* inout, NodeContent* out) {
  const CUmemPoolProps& pool = inout->poolProps;
  if (pool.allocType != CU_MEM_ALLOCATION_TYPE_PINNED ||
      pool.location.type != CU_MEM_LOCATION_TYPE_DEVICE ||
      pool.handleTypes != CU_MEM_HANDLE_TYPE_NONE || inout->bytesize == 0) {
    return CUDA_ERROR_INVALID_VALUE;
  }
  VRAM_SIM_TRY(require_device(pool.location.id));
  CUdeviceptr address = 0;
  VRAM_SIM_TRY(reserve_graph_address(pool.location.id, inout->bytesize, &address));
  inout->dptr = address;
  *out = {AllocationCall{*inout}, &current};
  return CUDA_SUCCESS;
}

CUresult any_content(Context& current, CUgraphNodeParams* inout, NodeContent* out) {
  switch (inout->type) {
    case CU_GRAPH_NODE_TYPE_KERNEL:
      return kernel_content(current, from_v3(inout->kernel), out);
    case CU_GRAPH_NODE_TYPE_MEMCPY:
      return copy_content(current, &inout->memcpy.copyParams, inout->memcpy.copyCtx, out);
    case CU_GRAPH_NODE_TYPE_MEMSET: {
      const CUDA_MEMSET_NODE_PARAMS fill = from_v2(inout->memset);
      return fill_content(current, &fill, inout->memset.ctx, out);
    }
    case CU_GRAPH_NODE_TYPE_HOST: {
      const CUDA_HOST_NODE_PARAMS host{inout->host.fn, inout->host.userData};
      return host_content(current, &host, out);
    }
    case CU_GRAPH_NODE_TYPE_GRAPH:
      return child_content(current, inout->graph.graph, inout->graph.ownership, out);
    case CU_GRAPH_NODE_TYPE_EMPTY:
      *out = {EmptyCall{}, &current};
      return CUDA_SUCCESS;
    case CU_GRAPH_NODE_TYPE_WAIT_EVENT:
      return wait_content(current, inout->eventWait.event, out);
    case CU_GRAPH_NODE_TYPE_EVENT_RECORD:
      return record_content(current, inout->eventRecord.event, out);
    case CU_GRAPH_NODE_TYPE_MEM_ALLOC:
      return allocation_content_v2(current, &inout->alloc, out);
    case CU_GRAPH_NODE_TYPE_MEM_FREE:
      return free_content(current, inout->free.dptr, out);
    case CU_GRAPH_NODE_TYPE_BATCH_MEM_OP:
      return memory_operations_content_v2(current, inout->memOp, out);
    default:
      return CUDA_ERROR_NOT_SUPPORTED;
  }
}

CUDA_KERNEL_NODE_PARAMS kernel_parameters(GraphNode& node, const KernelCall& call) {
  node.argument_slots.clear();
  for (const Parameter& parameter : call.function->info.parameters) {
    if (parameter.offset + parameter.bytes > call.arguments.size()) break;
    node.argument_slots.push_back(const_cast<std::byte*>(call.arguments.data()) + parameter.offset);
  }
  CUDA_KERNEL_NODE_PARAMS out{};
  const bool is_kernel = find_kernel(reinterpret_cast<CUkernel>(call.asked_for)) != nullptr;
  if (is_kernel) {
    out.kern = reinterpret_cast<CUkernel>(call.asked_for);
  } else {
    out.func = call.asked_for;
  }
  out.ctx = handle_of(*node.context);
  out.gridDimX = call.grid[0];
  out.gridDimY = call.grid[1];
  out.gridDimZ = call.grid[2];
  out.blockDimX = call.block[0];
  out.blockDimY = call.block[1];
  out.blockDimZ = call.block[2];
  out.sharedMemBytes = call.shared_bytes;
  out.kernelParams = node.argument_slots.empty() ? nullptr : node.argument_slots.data();
  return out;
}

}  // namespace vram::sim
