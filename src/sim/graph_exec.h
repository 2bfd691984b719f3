// Executable graphs.
//
// An executable holds a copy of its graph, which can be changed node by node, and keeps the graph
// it came from alive, whose addresses its memory nodes use. A launch runs what the copy was at that
// moment, as one piece of work of the stream, and not before an earlier launch of the same
// executable is over.
#pragma once

#include <cuda.h>

#include <memory>
#include <utility>
#include <vector>

#include "sim/graph.h"
#include "sim/stream.h"

namespace vram::sim {

struct GraphExec {
  using Program = std::vector<std::pair<Operation, Context*>>;

  std::shared_ptr<Graph> source;
  std::shared_ptr<Graph> copy;
  cuuint64_t flags = 0;
  Ticket last;                             // the latest launch
  std::shared_ptr<const Program> program;  // of the copy as it is; null when it has changed

  GraphExec() = default;
  GraphExec(const GraphExec&) = delete;
  GraphExec& operator=(const GraphExec&) = delete;
  ~GraphExec();

  [[nodiscard]] CUgraphExec handle() const {
    return reinterpret_cast<CUgraphExec>(const_cast<GraphExec*>(this));
  }
};

// CUDA_ERROR_NOT_SUPPORTED when the graph has memory nodes and an executable already,
// CUDA_ERROR_INVALID_VALUE when it has a cycle.
[[nodiscard]] CUresult instantiate(const std::shared_ptr<Graph>& graph, cuuint64_t flags,
                                   std::shared_ptr<GraphExec>* out);
[[nodiscard]] std::shared_ptr<GraphExec> find_exec(CUgraphExec handle);
[[nodiscard]] CUresult destroy_exec(CUgraphExec handle);

// Takes the memory that the graph needs, then submits. CUDA_ERROR_OUT_OF_MEMORY;
// CUDA_ERROR_INVALID_VALUE when memory of an earlier launch was never freed.
[[nodiscard]] CUresult launch(GraphExec& exec, const std::shared_ptr<Stream>& stream);
[[nodiscard]] CUresult upload(GraphExec& exec);

// The copy of a node of the source; null when there is none.
[[nodiscard]] GraphNode* node_in(GraphExec& exec, const GraphNode& node);

struct UpdateOutcome {
  CUgraphExecUpdateResult result = CU_GRAPH_EXEC_UPDATE_SUCCESS;
  GraphNode* node = nullptr;  // of the new graph, that does not fit
};
// Takes over the parameters of a graph of the same shape.
[[nodiscard]] UpdateOutcome update(GraphExec& exec, const std::shared_ptr<Graph>& graph);

}  // namespace vram::sim
