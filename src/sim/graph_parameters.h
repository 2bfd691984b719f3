// The parameters of graph nodes as programs write them, and as operations.
#pragma once

#include <cuda.h>

#include "sim/graph.h"
#include "sim/operation.h"

namespace vram::sim {

// What a node is made of: the operation, and the context it runs in.
struct NodeContent {
  Operation operation;
  Context* context = nullptr;
};

// `current` is the calling thread's context; parameters may name another. All answer
// CUDA_ERROR_INVALID_VALUE or CUDA_ERROR_INVALID_HANDLE and leave `*out` alone.
[[nodiscard]] CUresult kernel_content(Context& current, const CUDA_KERNEL_NODE_PARAMS& from,
                                      NodeContent* out);
[[nodiscard]] CUresult copy_content(Context& current, const CUDA_MEMCPY3D* from, CUcontext context,
                                    NodeContent* out);
[[nodiscard]] CUresult fill_content(Context& current, const CUDA_MEMSET_NODE_PARAMS* from,
                                    CUcontext context, NodeContent* out);
[[nodiscard]] CUresult host_content(Context& current, const CUDA_HOST_NODE_PARAMS* from,
                                    NodeContent* out);
[[nodiscard]] CUresult child_content(Context& current, CUgraph graph,
                                     CUgraphChildGraphNodeOwnership ownership, NodeContent* out);
[[nodiscard]] CUresult record_content(Context& current, CUevent event, NodeContent* out);
[[nodiscard]] CUresult wait_content(Context& current, CUevent event, NodeContent* out);
[[nodiscard]] CUresult memory_operations_content(Context& current,
                                                 const CUDA_BATCH_MEM_OP_NODE_PARAMS* from,
                                                 NodeContent* out);
[[nodiscard]] CUresult free_content(Context& current, CUdeviceptr address, NodeContent* out);
// Gives the node its address, in the parameters too.
[[nodiscard]] CUresult allocation_content(Context& current, CUDA_MEM_ALLOC_NODE_PARAMS* inout,
                                          NodeContent* out);

// The generic form; the address of an allocation node is written back.
[[nodiscard]] CUresult any_content(Context& current, CUgraphNodeParams* inout, NodeContent* out);

// Fills in everything but the arguments, which stay with the node and live as long as it.
[[nodiscard]] CUDA_KERNEL_NODE_PARAMS kernel_parameters(GraphNode& node, const KernelCall& call);

}  // namespace vram::sim
