// Graphs: nodes, edges, executable copies.
//
// All graphs of the process are guarded by graph_lock(), recursive because a capture adds nodes
// while it holds it. Handles are the addresses of the objects; a handle that is not in the
// registry is CUDA_ERROR_INVALID_VALUE.
#pragma once

#include <cuda.h>

#include <list>
#include <map>
#include <memory>
#include <mutex>
#include <utility>
#include <vector>

#include "sim/operation.h"

namespace vram::sim {

struct Graph;

struct GraphNode {
  Graph* graph = nullptr;
  Operation operation;
  Context* context = nullptr;
  bool enabled = true;
  std::vector<GraphNode*> dependencies;
  std::vector<GraphNode*> dependents;
  std::map<CUlaunchAttributeID, CUlaunchAttributeValue> attributes;  // of a kernel node
  std::vector<void*> argument_slots;  // what cuGraphKernelNodeGetParams hands out
  GraphNode* origin = nullptr;  // in a clone or an executable: the node this one was copied from

  [[nodiscard]] CUgraphNode handle() const {
    return reinterpret_cast<CUgraphNode>(const_cast<GraphNode*>(this));
  }
  [[nodiscard]] CUgraphNodeType type() const;
};

struct Graph : std::enable_shared_from_this<Graph> {
  std::list<GraphNode> nodes;
  int executables = 0;  // alive; at most one where the graph has memory nodes
  bool moved = false;   // into the node of another graph, which it goes with
  std::vector<std::pair<CUuserObject, unsigned>> user_objects;

  Graph() = default;
  Graph(const Graph&) = delete;
  Graph& operator=(const Graph&) = delete;
  ~Graph();

  [[nodiscard]] CUgraph handle() const {
    return reinterpret_cast<CUgraph>(const_cast<Graph*>(this));
  }
  [[nodiscard]] bool has_memory_nodes() const;
};

[[nodiscard]] std::recursive_mutex& graph_lock();

[[nodiscard]] std::shared_ptr<Graph> create_graph();
[[nodiscard]] std::shared_ptr<Graph> find_graph(CUgraph handle);
[[nodiscard]] GraphNode* find_node(CUgraphNode handle);
// Makes the graph the program's, to live until forget_graph().
void give_to_program(const std::shared_ptr<Graph>& graph);
[[nodiscard]] CUresult forget_graph(CUgraph handle);
// Makes the program's graph a part of `parent`. CUDA_ERROR_INVALID_VALUE unless it is the program's
// and another one, CUDA_ERROR_NOT_SUPPORTED while it has an executable.
[[nodiscard]] CUresult move_graph(Graph& child, const Graph& parent);

[[nodiscard]] GraphNode* add_node(Graph& graph, Operation operation, Context& context,
                                  const std::vector<GraphNode*>& dependencies);
void add_edge(GraphNode& from, GraphNode& to);
[[nodiscard]] bool remove_edge(GraphNode& from, GraphNode& to);
void remove_node(GraphNode& node);
// Copies nodes and edges; each copy's origin is the node it was made from.
[[nodiscard]] std::shared_ptr<Graph> clone_graph(const Graph& graph);
// An order in which every node follows what it depends on; empty where there is a cycle.
[[nodiscard]] std::vector<GraphNode*> execution_order(Graph& graph);

}  // namespace vram::sim
