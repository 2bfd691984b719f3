// cuGraphAdd…Node, and the parameters of nodes in graphs and executables.
#include <cuda.h>

#include <utility>
#include <vector>

#include "sim/graph.h"
#include "sim/graph_exec.h"
#include "sim/graph_memory.h"
#include "sim/graph_parameters.h"
#include "sim/stream_entry.h"
#include "sim/try.h"

namespace vram::sim {
namespace {

using Lock = std::lock_guard<std::recursive_mutex>;

// Where a new node goes.
struct Place {
  CUgraphNode* out;
  CUgraph graph;
  const CUgraphNode* dependencies;
  size_t count;
};

// What a graph says to an operation that is to be a node of it.
CUresult join_graph(const Graph& graph, const Operation& operation) {
  if (const auto* child = std::get_if<ChildGraphCall>(&operation)) {
    return child->moved ? move_graph(*child->graph, graph) : CUDA_SUCCESS;
  }
  // A graph that was moved into a node has the memory nodes it had then.
  if (!graph.moved) return CUDA_SUCCESS;
  if (std::holds_alternative<FreeCall>(operation)) return CUDA_ERROR_NOT_SUPPORTED;
  const auto* allocation = std::get_if<AllocationCall>(&operation);
  if (allocation == nullptr) return CUDA_SUCCESS;
  forget_graph_address(allocation->params.dptr);
  return CUDA_ERROR_NOT_SUPPORTED;
}

// Adds a node whose content make(context, &content) gives.
template <typename Make>
CUresult add(const Place& place, Make make) {
  if (place.out == nullptr || (place.count > 0 && place.dependencies == nullptr)) {
    return CUDA_ERROR_INVALID_VALUE;
  }
  Context* context = nullptr;
  VRAM_SIM_TRY(require_usable_context(&context));
  const Lock held(graph_lock());
  const std::shared_ptr<Graph> graph = find_graph(place.graph);
  if (!graph) return CUDA_ERROR_INVALID_VALUE;
  std::vector<GraphNode*> dependencies;
  for (size_t i = 0; i < place.count; ++i) {
    GraphNode* node = find_node(place.dependencies[i]);
    if (node == nullptr || node->graph != graph.get()) return CUDA_ERROR_INVALID_VALUE;
    dependencies.push_back(node);
  }
  NodeContent content;
  VRAM_SIM_TRY(make(*context, &content));
  VRAM_SIM_TRY(join_graph(*graph, content.operation));
  *place.out =
      add_node(*graph, std::move(content.operation), *content.context, dependencies)->handle();
  return CUDA_SUCCESS;
}

// Gives a node of the same kind new content.
template <typename Make>
CUresult change(GraphNode& node, Make make) {
  Context* context = nullptr;
  VRAM_SIM_TRY(require_usable_context(&context));
  NodeContent content;
  VRAM_SIM_TRY(make(*context, &content));
  if (content.operation.index() != node.operation.index()) return CUDA_ERROR_INVALID_VALUE;
  if (const auto* child = std::get_if<ChildGraphCall>(&content.operation)) {
    if (child->moved) return CUDA_ERROR_NOT_SUPPORTED;
  }
  node.operation = std::move(content.operation);
  node.context = content.context;
  return CUDA_SUCCESS;
}

template <typename Make>
CUresult set(CUgraphNode handle, Make make) {
  VRAM_SIM_TRY(require_initialized());
  const Lock held(graph_lock());
  GraphNode* node = find_node(handle);
  if (node == nullptr) return CUDA_ERROR_INVALID_VALUE;
  return change(*node, make);
}

CUresult require_copy(CUgraphExec exec_handle, CUgraphNode handle, std::shared_ptr<GraphExec>* exec,
                      GraphNode** copy) {
  VRAM_SIM_TRY(require_initialized());
  *exec = find_exec(exec_handle);
  GraphNode* node = find_node(handle);
  if (!*exec || node == nullptr) return CUDA_ERROR_INVALID_VALUE;
  *copy = node_in(**exec, *node);
  return *copy != nullptr ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}

template <typename Make>
CUresult set_in_exec(CUgraphExec exec_handle, CUgraphNode handle, Make make) {
  const Lock held(graph_lock());
  std::shared_ptr<GraphExec> exec;
  GraphNode* copy = nullptr;
  VRAM_SIM_TRY(require_copy(exec_handle, handle, &exec, &copy));
  VRAM_SIM_TRY(change(*copy, make));
  exec->program.reset();
  return CUDA_SUCCESS;
}

// Calls f(node, call) if the node is of the kind of `Call`.
template <typename Call, typename F>
CUresult get(CUgraphNode handle, const void* out, F f) {
  if (out == nullptr) return CUDA_ERROR_INVALID_VALUE;
  VRAM_SIM_TRY(require_initialized());
  const Lock held(graph_lock());
  GraphNode* node = find_node(handle);
  if (node == nullptr) return CUDA_ERROR_INVALID_VALUE;
  auto* call = std::get_if<Call>(&node->operation);
  if (call == nullptr) return CUDA_ERROR_INVALID_VALUE;
  f(*node, *call);
  return CUDA_SUCCESS;
}

CUDA_KERNEL_NODE_PARAMS widen(const CUDA_KERNEL_NODE_PARAMS_v1& in) {
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
  return out;
}

CUDA_KERNEL_NODE_PARAMS_v1 narrow(const CUDA_KERNEL_NODE_PARAMS& in) {
  CUDA_KERNEL_NODE_PARAMS_v1 out{};
  out.func = in.func != nullptr ? in.func : reinterpret_cast<CUfunction>(in.kern);
  out.gridDimX = in.gridDimX;
  out.gridDimY = in.gridDimY;
  out.gridDimZ = in.gridDimZ;
  out.blockDimX = in.blockDimX;
  out.blockDimY = in.blockDimY;
  out.blockDimZ = in.blockDimZ;
  out.sharedMemBytes = in.sharedMemBytes;
  out.kernelParams = in.kernelParams;
  out.extra = in.extra;
  return out;
}

// Each maker turns one kind of parameters into the content of a node.
auto kernel_maker(const CUDA_KERNEL_NODE_PARAMS* from) {
  return [=](Context& context, NodeContent* out) {
    return from == nullptr ? CUDA_ERROR_INVALID_VALUE : kernel_content(context, *from, out);
  };
}
auto kernel_maker_v1(const CUDA_KERNEL_NODE_PARAMS_v1* from) {
  return [=](Context& context, NodeContent* out) {
    return from == nullptr ? CUDA_ERROR_INVALID_VALUE : kernel_content(context, widen(*from), out);
  };
}
auto copy_maker(const CUDA_MEMCPY3D* from, CUcontext named) {
  return
      [=](Context& context, NodeContent* out) { return copy_content(context, from, named, out); };
}
auto fill_maker(const CUDA_MEMSET_NODE_PARAMS* from, CUcontext named) {
  return
      [=](Context& context, NodeContent* out) { return fill_content(context, from, named, out); };
}
auto host_maker(const CUDA_HOST_NODE_PARAMS* from) {
  return [=](Context& context, NodeContent* out) { return host_content(context, from, out); };
}
auto child_maker(CUgraph graph) {
  return [=](Context& context, NodeContent* out) {
    return child_content(context, graph, CU_GRAPH_CHILD_GRAPH_OWNERSHIP_CLONE, out);
  };
}
auto record_maker(CUevent event) {
  return [=](Context& context, NodeContent* out) { return record_content(context, event, out); };
}
auto wait_maker(CUevent event) {
  return [=](Context& context, NodeContent* out) { return wait_content(context, event, out); };
}
auto memory_operations_maker(const CUDA_BATCH_MEM_OP_NODE_PARAMS* from) {
  return [=](Context& context, NodeContent* out) {
    return memory_operations_content(context, from, out);
  };
}
auto any_maker(CUgraphNodeParams* inout) {
  return [=](Context& context, NodeContent* out) {
    return inout == nullptr ? CUDA_ERROR_INVALID_VALUE : any_content(context, inout, out);
  };
}
auto allocation_maker(CUDA_MEM_ALLOC_NODE_PARAMS* inout) {
  return [=](Context& context, NodeContent* out) {
    return inout == nullptr ? CUDA_ERROR_INVALID_VALUE : allocation_content(context, inout, out);
  };
}
auto free_maker(CUdeviceptr address) {
  return [=](Context& context, NodeContent* out) { return free_content(context, address, out); };
}

CUresult empty_content(Context& context, NodeContent* out) {
  *out = {EmptyCall{}, &context};
  return CUDA_SUCCESS;
}

// Memory nodes cannot be changed once they are made.
bool is_memory(const CUgraphNodeParams* parameters) {
  return parameters != nullptr && (parameters->type == CU_GRAPH_NODE_TYPE_MEM_ALLOC ||
                                   parameters->type == CU_GRAPH_NODE_TYPE_MEM_FREE);
}

CUresult set_any(CUgraphNode node, CUgraphNodeParams* parameters) {
  return is_memory(parameters) ? CUDA_ERROR_NOT_SUPPORTED : set(node, any_maker(parameters));
}

CUresult set_any_in_exec(CUgraphExec exec, CUgraphNode node, CUgraphNodeParams* parameters) {
  return is_memory(parameters) ? CUDA_ERROR_NOT_SUPPORTED
                               : set_in_exec(exec, node, any_maker(parameters));
}

// The pointed-to list is the node's own, as CUDA has it.
CUresult get_memory_operations(CUgraphNode handle, CUDA_BATCH_MEM_OP_NODE_PARAMS* out) {
  return get<MemoryOpsCall>(handle, out, [&](GraphNode& node, MemoryOpsCall& call) {
    *out = {};
    out->ctx = handle_of(*node.context);
    out->count = static_cast<unsigned>(call.operations.size());
    out->paramArray = call.operations.data();
  });
}

CUresult set_enabled(CUgraphExec exec_handle, CUgraphNode handle, unsigned enabled) {
  const Lock held(graph_lock());
  std::shared_ptr<GraphExec> exec;
  GraphNode* copy = nullptr;
  VRAM_SIM_TRY(require_copy(exec_handle, handle, &exec, &copy));
  const CUgraphNodeType type = copy->type();
  if (type != CU_GRAPH_NODE_TYPE_KERNEL && type != CU_GRAPH_NODE_TYPE_MEMSET &&
      type != CU_GRAPH_NODE_TYPE_MEMCPY) {
    return CUDA_ERROR_INVALID_VALUE;
  }
  copy->enabled = enabled != 0;
  exec->program.reset();
  return CUDA_SUCCESS;
}

CUresult get_enabled(CUgraphExec exec_handle, CUgraphNode handle, unsigned* out) {
  if (out == nullptr) return CUDA_ERROR_INVALID_VALUE;
  const Lock held(graph_lock());
  std::shared_ptr<GraphExec> exec;
  GraphNode* copy = nullptr;
  VRAM_SIM_TRY(require_copy(exec_handle, handle, &exec, &copy));
  *out = copy->enabled ? 1 : 0;
  return CUDA_SUCCESS;
}

CUresult set_kernel_node_attribute(CUgraphNode node, CUkernelNodeAttrID id,
                                   const CUkernelNodeAttrValue* value) {
  return get<KernelCall>(node, value,
                         [&](GraphNode& found, KernelCall&) { found.attributes[id] = *value; });
}

CUresult get_kernel_node_attribute(CUgraphNode node, CUkernelNodeAttrID id,
                                   CUkernelNodeAttrValue* out) {
  return get<KernelCall>(node, out, [&](GraphNode& found, KernelCall&) {
    const auto value = found.attributes.find(id);
    *out = value == found.attributes.end() ? CUkernelNodeAttrValue{} : value->second;
  });
}

CUresult copy_kernel_node_attributes(CUgraphNode to, CUgraphNode from) {
  decltype(GraphNode::attributes) attributes;
  VRAM_SIM_TRY(get<KernelCall>(
      from, from, [&](GraphNode& found, KernelCall&) { attributes = found.attributes; }));
  return get<KernelCall>(to, to,
                         [&](GraphNode& found, KernelCall&) { found.attributes = attributes; });
}

}  // namespace
}  // namespace vram::sim

using namespace vram::sim;

extern "C" {

#define VRAM_SIM_ADD(name, parameters, maker)                                                   \
  CUresult name(CUgraphNode* out, CUgraph graph, const CUgraphNode* dependencies, size_t count, \
                VRAM_SIM_ARGUMENTS parameters) {                                                \
    VRAM_SIM_ENTER();                                                                           \
    return add({out, graph, dependencies, count}, maker);                                       \
  }
VRAM_SIM_ADD(cuGraphAddKernelNode, (const CUDA_KERNEL_NODE_PARAMS_v1* from), kernel_maker_v1(from))
VRAM_SIM_ADD(cuGraphAddKernelNode_v2, (const CUDA_KERNEL_NODE_PARAMS* from), kernel_maker(from))
VRAM_SIM_ADD(cuGraphAddMemcpyNode, (const CUDA_MEMCPY3D* from, CUcontext context),
             copy_maker(from, context))
VRAM_SIM_ADD(cuGraphAddMemsetNode, (const CUDA_MEMSET_NODE_PARAMS* from, CUcontext context),
             fill_maker(from, context))
VRAM_SIM_ADD(cuGraphAddHostNode, (const CUDA_HOST_NODE_PARAMS* from), host_maker(from))
VRAM_SIM_ADD(cuGraphAddChildGraphNode, (CUgraph child), child_maker(child))
VRAM_SIM_ADD(cuGraphAddEventRecordNode, (CUevent event), record_maker(event))
VRAM_SIM_ADD(cuGraphAddEventWaitNode, (CUevent event), wait_maker(event))
VRAM_SIM_ADD(cuGraphAddBatchMemOpNode, (const CUDA_BATCH_MEM_OP_NODE_PARAMS* from),
             memory_operations_maker(from))
VRAM_SIM_ADD(cuGraphAddMemAllocNode, (CUDA_MEM_ALLOC_NODE_PARAMS * inout), allocation_maker(inout))
VRAM_SIM_ADD(cuGraphAddMemFreeNode, (CUdeviceptr address), free_maker(address))
VRAM_SIM_ADD(cuGraphAddNode, (CUgraphNodeParams * inout), any_maker(inout))
#undef VRAM_SIM_ADD

CUresult cuGraphAddEmptyNode(CUgraphNode* out, CUgraph graph, const CUgraphNode* dependencies,
                             size_t count) {
  VRAM_SIM_ENTER();
  return add({out, graph, dependencies, count}, empty_content);
}
CUresult cuGraphAddNode_v2(CUgraphNode* out, CUgraph graph, const CUgraphNode* dependencies,
                           const CUgraphEdgeData*, size_t count, CUgraphNodeParams* inout) {
  VRAM_SIM_ENTER();
  return add({out, graph, dependencies, count}, any_maker(inout));
}

// The setter of a node, and that of its copy in an executable.
#define VRAM_SIM_SET(name, exec_name, parameters, maker)                                  \
  CUresult name(CUgraphNode node, VRAM_SIM_ARGUMENTS parameters) {                        \
    VRAM_SIM_ENTER();                                                                     \
    return set(node, maker);                                                              \
  }                                                                                       \
  CUresult exec_name(CUgraphExec exec, CUgraphNode node, VRAM_SIM_ARGUMENTS parameters) { \
    VRAM_SIM_ENTER();                                                                     \
    return set_in_exec(exec, node, maker);                                                \
  }
VRAM_SIM_SET(cuGraphKernelNodeSetParams, cuGraphExecKernelNodeSetParams,
             (const CUDA_KERNEL_NODE_PARAMS_v1* from), kernel_maker_v1(from))
VRAM_SIM_SET(cuGraphKernelNodeSetParams_v2, cuGraphExecKernelNodeSetParams_v2,
             (const CUDA_KERNEL_NODE_PARAMS* from), kernel_maker(from))
VRAM_SIM_SET(cuGraphHostNodeSetParams, cuGraphExecHostNodeSetParams,
             (const CUDA_HOST_NODE_PARAMS* from), host_maker(from))
VRAM_SIM_SET(cuGraphEventRecordNodeSetEvent, cuGraphExecEventRecordNodeSetEvent, (CUevent event),
             record_maker(event))
VRAM_SIM_SET(cuGraphEventWaitNodeSetEvent, cuGraphExecEventWaitNodeSetEvent, (CUevent event),
             wait_maker(event))
VRAM_SIM_SET(cuGraphBatchMemOpNodeSetParams, cuGraphExecBatchMemOpNodeSetParams,
             (const CUDA_BATCH_MEM_OP_NODE_PARAMS* from), memory_operations_maker(from))
#undef VRAM_SIM_SET

VRAM_SIM_ONE(cuGraphMemcpyNodeSetParams, set, (CUgraphNode node, const CUDA_MEMCPY3D* from),
             (node, copy_maker(from, nullptr)))
VRAM_SIM_ONE(cuGraphExecMemcpyNodeSetParams, set_in_exec,
             (CUgraphExec exec, CUgraphNode node, const CUDA_MEMCPY3D* from, CUcontext context),
             (exec, node, copy_maker(from, context)))
VRAM_SIM_ONE(cuGraphMemsetNodeSetParams, set,
             (CUgraphNode node, const CUDA_MEMSET_NODE_PARAMS* from),
             (node, fill_maker(from, nullptr)))
VRAM_SIM_ONE(cuGraphExecMemsetNodeSetParams, set_in_exec,
             (CUgraphExec exec, CUgraphNode node, const CUDA_MEMSET_NODE_PARAMS* from,
              CUcontext context),
             (exec, node, fill_maker(from, context)))
VRAM_SIM_ONE(cuGraphExecChildGraphNodeSetParams, set_in_exec,
             (CUgraphExec exec, CUgraphNode node, CUgraph child), (exec, node, child_maker(child)))
VRAM_SIM_ONE(cuGraphNodeSetParams, set_any, (CUgraphNode node, CUgraphNodeParams* parameters),
             (node, parameters))
VRAM_SIM_ONE(cuGraphExecNodeSetParams, set_any_in_exec,
             (CUgraphExec exec, CUgraphNode node, CUgraphNodeParams* parameters),
             (exec, node, parameters))

// The getter of a node; `call` is its operation.
#define VRAM_SIM_GET(name, Call, type, statement)                   \
  CUresult name(CUgraphNode node, type* out) {                      \
    VRAM_SIM_ENTER();                                               \
    return get<Call>(node, out, [&](GraphNode& found, Call& call) { \
      static_cast<void>(found);                                     \
      statement;                                                    \
    });                                                             \
  }
VRAM_SIM_GET(cuGraphKernelNodeGetParams, KernelCall, CUDA_KERNEL_NODE_PARAMS_v1,
             *out = narrow(kernel_parameters(found, call)))
VRAM_SIM_GET(cuGraphKernelNodeGetParams_v2, KernelCall, CUDA_KERNEL_NODE_PARAMS,
             *out = kernel_parameters(found, call))
VRAM_SIM_GET(cuGraphMemcpyNodeGetParams, CopyCall, CUDA_MEMCPY3D, *out = call.shape)
VRAM_SIM_GET(cuGraphMemsetNodeGetParams, FillCall, CUDA_MEMSET_NODE_PARAMS, *out = call.shape)
VRAM_SIM_GET(cuGraphHostNodeGetParams, HostCall, CUDA_HOST_NODE_PARAMS,
             (*out = {call.function, call.argument}))
VRAM_SIM_GET(cuGraphChildGraphNodeGetGraph, ChildGraphCall, CUgraph, *out = call.graph->handle())
VRAM_SIM_GET(cuGraphEventRecordNodeGetEvent, EventRecordCall, CUevent, *out = call.event->handle())
VRAM_SIM_GET(cuGraphEventWaitNodeGetEvent, EventWaitCall, CUevent, *out = call.event->handle())
VRAM_SIM_GET(cuGraphMemAllocNodeGetParams, AllocationCall, CUDA_MEM_ALLOC_NODE_PARAMS,
             *out = call.params)
VRAM_SIM_GET(cuGraphMemFreeNodeGetParams, FreeCall, CUdeviceptr, *out = call.address)
#undef VRAM_SIM_GET
VRAM_SIM_ONE(cuGraphBatchMemOpNodeGetParams, get_memory_operations,
             (CUgraphNode node, CUDA_BATCH_MEM_OP_NODE_PARAMS* out), (node, out))

VRAM_SIM_ONE(cuGraphNodeSetEnabled, set_enabled,
             (CUgraphExec exec, CUgraphNode node, unsigned enabled), (exec, node, enabled))
VRAM_SIM_ONE(cuGraphNodeGetEnabled, get_enabled,
             (CUgraphExec exec, CUgraphNode node, unsigned* out), (exec, node, out))
VRAM_SIM_ONE(cuGraphKernelNodeSetAttribute, set_kernel_node_attribute,
             (CUgraphNode node, CUkernelNodeAttrID id, const CUkernelNodeAttrValue* value),
             (node, id, value))
VRAM_SIM_ONE(cuGraphKernelNodeGetAttribute, get_kernel_node_attribute,
             (CUgraphNode node, CUkernelNodeAttrID id, CUkernelNodeAttrValue* out), (node, id, out))
VRAM_SIM_ONE(cuGraphKernelNodeCopyAttributes, copy_kernel_node_attributes,
             (CUgraphNode to, CUgraphNode from), (to, from))

}  // extern "C"
