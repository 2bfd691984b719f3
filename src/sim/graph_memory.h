// Which addresses belong to allocation nodes of graphs, and freeing them outside their graph.
#pragma once

#include <cuda.h>

#include <cstddef>
#include <memory>

#include "sim/stream.h"

namespace vram::sim {

// An address for an allocation node; memory comes when the node runs.
[[nodiscard]] CUresult reserve_graph_address(int device, size_t bytes, CUdeviceptr* out);
// The node is gone for good.
void forget_graph_address(CUdeviceptr base);
[[nodiscard]] bool is_graph_address(CUdeviceptr base);

// The program frees a node's memory itself, in the order of the stream. CUDA_ERROR_INVALID_VALUE
// when it has none now.
[[nodiscard]] CUresult free_graph_memory(const std::shared_ptr<Stream>& stream, CUdeviceptr base);
// Has memory, and nothing that is already submitted will free it.
[[nodiscard]] bool is_graph_memory_live(CUdeviceptr base);

}  // namespace vram::sim
