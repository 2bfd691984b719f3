// cuGraph…: graphs, their nodes and edges.
#include <cuda.h>

#include <algorithm>
#include <cstdio>
#include <utility>
#include <vector>

#include "sim/graph.h"
#include "sim/stream_entry.h"
#include "sim/try.h"

namespace vram::sim {
namespace {

using Lock = std::lock_guard<std::recursive_mutex>;

CUresult create(CUgraph* out, unsigned flags) {
  if (out == nullptr || flags != 0) return CUDA_ERROR_INVALID_VALUE;
  VRAM_SIM_TRY(require_initialized());
  const std::shared_ptr<Graph> graph = create_graph();
  give_to_program(graph);
  *out = graph->handle();
  return CUDA_SUCCESS;
}

CUresult destroy(CUgraph handle) {
  VRAM_SIM_TRY(require_initialized());
  return forget_graph(handle);
}

CUresult require_graph(CUgraph handle, std::shared_ptr<Graph>* out) {
  VRAM_SIM_TRY(require_initialized());
  *out = find_graph(handle);
  return *out ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}

CUresult require_node(CUgraphNode handle, GraphNode** out) {
  VRAM_SIM_TRY(require_initialized());
  *out = find_node(handle);
  return *out != nullptr ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}

CUresult clone(CUgraph* out, CUgraph handle) {
  if (out == nullptr) return CUDA_ERROR_INVALID_VALUE;
  std::shared_ptr<Graph> graph;
  VRAM_SIM_TRY(require_graph(handle, &graph));
  const Lock held(graph_lock());
  if (graph->has_memory_nodes()) return CUDA_ERROR_NOT_SUPPORTED;
  const std::shared_ptr<Graph> copy = clone_graph(*graph);
  give_to_program(copy);
  *out = copy->handle();
  return CUDA_SUCCESS;
}

CUresult find_in_clone(CUgraphNode* out, CUgraphNode original, CUgraph handle) {
  if (out == nullptr) return CUDA_ERROR_INVALID_VALUE;
  std::shared_ptr<Graph> graph;
  VRAM_SIM_TRY(require_graph(handle, &graph));
  GraphNode* node = nullptr;
  VRAM_SIM_TRY(require_node(original, &node));
  const Lock held(graph_lock());
  for (GraphNode& copy : graph->nodes) {
    if (copy.origin != node) continue;
    *out = copy.handle();
    return CUDA_SUCCESS;
  }
  return CUDA_ERROR_INVALID_VALUE;
}

CUresult type_of(CUgraphNode handle, CUgraphNodeType* out) {
  if (out == nullptr) return CUDA_ERROR_INVALID_VALUE;
  const Lock held(graph_lock());
  GraphNode* node = nullptr;
  VRAM_SIM_TRY(require_node(handle, &node));
  *out = node->type();
  return CUDA_SUCCESS;
}

CUresult destroy_node(CUgraphNode handle) {
  const Lock held(graph_lock());
  GraphNode* node = nullptr;
  VRAM_SIM_TRY(require_node(handle, &node));
  if (node->graph->has_memory_nodes()) return CUDA_ERROR_NOT_SUPPORTED;
  remove_node(*node);
  return CUDA_SUCCESS;
}

// CUDA's way of handing out lists: without room it tells the length; otherwise it fills the room,
// clears what is left of it and tells how much it filled.
CUresult hand_out(const std::vector<GraphNode*>& nodes, CUgraphNode* out, size_t* count) {
  if (count == nullptr) return CUDA_ERROR_INVALID_VALUE;
  if (out == nullptr) {
    *count = nodes.size();
    return CUDA_SUCCESS;
  }
  for (size_t i = 0; i < *count; ++i) out[i] = i < nodes.size() ? nodes[i]->handle() : nullptr;
  *count = std::min(*count, nodes.size());
  return CUDA_SUCCESS;
}

void clear_edges(CUgraphEdgeData* edges, const size_t* count) {
  if (edges != nullptr && count != nullptr) std::fill_n(edges, *count, CUgraphEdgeData{});
}

CUresult nodes_of(CUgraph handle, CUgraphNode* out, size_t* count) {
  std::shared_ptr<Graph> graph;
  VRAM_SIM_TRY(require_graph(handle, &graph));
  const Lock held(graph_lock());
  std::vector<GraphNode*> nodes;
  for (GraphNode& node : graph->nodes) nodes.push_back(&node);
  return hand_out(nodes, out, count);
}

CUresult roots_of(CUgraph handle, CUgraphNode* out, size_t* count) {
  std::shared_ptr<Graph> graph;
  VRAM_SIM_TRY(require_graph(handle, &graph));
  const Lock held(graph_lock());
  std::vector<GraphNode*> nodes;
  for (GraphNode& node : graph->nodes) {
    if (node.dependencies.empty()) nodes.push_back(&node);
  }
  return hand_out(nodes, out, count);
}

CUresult edges_of_v2(CUgraph handle, CUgraphNode* from, CUgraphNode* to, CUgraphEdgeData* data,
                     size_t* count) {
  if (count == nullptr || (from == nullptr) != (to == nullptr)) return CUDA_ERROR_INVALID_VALUE;
  std::shared_ptr<Graph> graph;
  VRAM_SIM_TRY(require_graph(handle, &graph));
  const Lock held(graph_lock());
  std::vector<GraphNode*> sources;
  std::vector<GraphNode*> targets;
  for (GraphNode& node : graph->nodes) {
    for (GraphNode* dependent : node.dependents) {
      sources.push_back(&node);
      targets.push_back(dependent);
    }
  }
  clear_edges(data, count);
  size_t same = *count;
  VRAM_SIM_TRY(hand_out(sources, from, &same));
  return hand_out(targets, to, count);
}

CUresult edges_of(CUgraph handle, CUgraphNode* from, CUgraphNode* to, size_t* count) {
  return edges_of_v2(handle, from, to, nullptr, count);
}

CUresult dependencies_of(CUgraphNode handle, CUgraphNode* out, CUgraphEdgeData* data,
                         size_t* count) {
  const Lock held(graph_lock());
  GraphNode* node = nullptr;
  VRAM_SIM_TRY(require_node(handle, &node));
  clear_edges(data, count);
  return hand_out(node->dependencies, out, count);
}

CUresult dependents_of(CUgraphNode handle, CUgraphNode* out, CUgraphEdgeData* data, size_t* count) {
  const Lock held(graph_lock());
  GraphNode* node = nullptr;
  VRAM_SIM_TRY(require_node(handle, &node));
  clear_edges(data, count);
  return hand_out(node->dependents, out, count);
}

CUresult dependencies_of_v1(CUgraphNode node, CUgraphNode* out, size_t* count) {
  return dependencies_of(node, out, nullptr, count);
}

CUresult dependents_of_v1(CUgraphNode node, CUgraphNode* out, size_t* count) {
  return dependents_of(node, out, nullptr, count);
}

using Edges = std::vector<std::pair<GraphNode*, GraphNode*>>;

CUresult take_edges(CUgraph handle, const CUgraphNode* from, const CUgraphNode* to, size_t count,
                    Edges* out) {
  if (count > 0 && (from == nullptr || to == nullptr)) return CUDA_ERROR_INVALID_VALUE;
  std::shared_ptr<Graph> graph;
  VRAM_SIM_TRY(require_graph(handle, &graph));
  for (size_t i = 0; i < count; ++i) {
    GraphNode* source = find_node(from[i]);
    GraphNode* target = find_node(to[i]);
    if (source == nullptr || target == nullptr || source == target ||
        source->graph != graph.get() || target->graph != graph.get()) {
      return CUDA_ERROR_INVALID_VALUE;
    }
    out->emplace_back(source, target);
  }
  return CUDA_SUCCESS;
}

CUresult add_edges(CUgraph graph, const CUgraphNode* from, const CUgraphNode* to,
                   const CUgraphEdgeData*, size_t count) {
  const Lock held(graph_lock());
  Edges edges;
  VRAM_SIM_TRY(take_edges(graph, from, to, count, &edges));
  for (const auto& [source, target] : edges) add_edge(*source, *target);
  return CUDA_SUCCESS;
}

CUresult remove_edges(CUgraph graph, const CUgraphNode* from, const CUgraphNode* to,
                      const CUgraphEdgeData*, size_t count) {
  const Lock held(graph_lock());
  Edges edges;
  VRAM_SIM_TRY(take_edges(graph, from, to, count, &edges));
  for (const auto& [source, target] : edges) {
    if (!remove_edge(*source, *target)) return CUDA_ERROR_INVALID_VALUE;
  }
  return CUDA_SUCCESS;
}

CUresult add_edges_v1(CUgraph graph, const CUgraphNode* from, const CUgraphNode* to, size_t count) {
  return add_edges(graph, from, to, nullptr, count);
}

CUresult remove_edges_v1(CUgraph graph, const CUgraphNode* from, const CUgraphNode* to,
                         size_t count) {
  return remove_edges(graph, from, to, nullptr, count);
}

CUresult print_dot(CUgraph handle, const char* path, unsigned) {
  if (path == nullptr) return CUDA_ERROR_INVALID_VALUE;
  std::shared_ptr<Graph> graph;
  VRAM_SIM_TRY(require_graph(handle, &graph));
  const Lock held(graph_lock());
  std::FILE* file = std::fopen(path, "w");
  if (file == nullptr) return CUDA_ERROR_OPERATING_SYSTEM;
  std::fputs("digraph dot {\n", file);
  for (const GraphNode& node : graph->nodes) {
    std::fprintf(file, "\"%p\" [label=\"type %d\"];\n", static_cast<const void*>(&node),
                 static_cast<int>(node.type()));
    for (const GraphNode* dependent : node.dependents) {
      std::fprintf(file, "\"%p\" -> \"%p\";\n", static_cast<const void*>(&node),
                   static_cast<const void*>(dependent));
    }
  }
  std::fputs("}\n", file);
  return std::fclose(file) == 0 ? CUDA_SUCCESS : CUDA_ERROR_OPERATING_SYSTEM;
}

}  // namespace
}  // namespace vram::sim

using namespace vram::sim;

extern "C" {

VRAM_SIM_ONE(cuGraphCreate, create, (CUgraph * graph, unsigned flags), (graph, flags))
VRAM_SIM_ONE(cuGraphDestroy, destroy, (CUgraph graph), (graph))
VRAM_SIM_ONE(cuGraphClone, clone, (CUgraph * copy, CUgraph graph), (copy, graph))
VRAM_SIM_ONE(cuGraphNodeFindInClone, find_in_clone,
             (CUgraphNode * node, CUgraphNode original, CUgraph graph), (node, original, graph))
VRAM_SIM_ONE(cuGraphNodeGetType, type_of, (CUgraphNode node, CUgraphNodeType* type), (node, type))
VRAM_SIM_ONE(cuGraphDestroyNode, destroy_node, (CUgraphNode node), (node))
VRAM_SIM_ONE(cuGraphGetNodes, nodes_of, (CUgraph graph, CUgraphNode* nodes, size_t* count),
             (graph, nodes, count))
VRAM_SIM_ONE(cuGraphGetRootNodes, roots_of, (CUgraph graph, CUgraphNode* nodes, size_t* count),
             (graph, nodes, count))
VRAM_SIM_ONE(cuGraphGetEdges, edges_of,
             (CUgraph graph, CUgraphNode* from, CUgraphNode* to, size_t* count),
             (graph, from, to, count))
VRAM_SIM_ONE(cuGraphGetEdges_v2, edges_of_v2,
             (CUgraph graph, CUgraphNode* from, CUgraphNode* to, CUgraphEdgeData* data,
              size_t* count),
             (graph, from, to, data, count))
VRAM_SIM_ONE(cuGraphNodeGetDependencies, dependencies_of_v1,
             (CUgraphNode node, CUgraphNode* nodes, size_t* count), (node, nodes, count))
VRAM_SIM_ONE(cuGraphNodeGetDependencies_v2, dependencies_of,
             (CUgraphNode node, CUgraphNode* nodes, CUgraphEdgeData* data, size_t* count),
             (node, nodes, data, count))
VRAM_SIM_ONE(cuGraphNodeGetDependentNodes, dependents_of_v1,
             (CUgraphNode node, CUgraphNode* nodes, size_t* count), (node, nodes, count))
VRAM_SIM_ONE(cuGraphNodeGetDependentNodes_v2, dependents_of,
             (CUgraphNode node, CUgraphNode* nodes, CUgraphEdgeData* data, size_t* count),
             (node, nodes, data, count))
VRAM_SIM_ONE(cuGraphAddDependencies, add_edges_v1,
             (CUgraph graph, const CUgraphNode* from, const CUgraphNode* to, size_t count),
             (graph, from, to, count))
VRAM_SIM_ONE(cuGraphAddDependencies_v2, add_edges,
             (CUgraph graph, const CUgraphNode* from, const CUgraphNode* to,
              const CUgraphEdgeData* data, size_t count),
             (graph, from, to, data, count))
VRAM_SIM_ONE(cuGraphRemoveDependencies, remove_edges_v1,
             (CUgraph graph, const CUgraphNode* from, const CUgraphNode* to, size_t count),
             (graph, from, to, count))
VRAM_SIM_ONE(cuGraphRemoveDependencies_v2, remove_edges,
             (CUgraph graph, const CUgraphNode* from, const CUgraphNode* to,
              const CUgraphEdgeData* data, size_t count),
             (graph, from, to, data, count))
VRAM_SIM_ONE(cuGraphDebugDotPrint, print_dot, (CUgraph graph, const char* path, unsigned flags),
             (graph, path, flags))

}  // extern "C"
