#include "sim/graph.h"

#include <algorithm>
#include <unordered_map>
#include <unordered_set>

#include "sim/graph_memory.h"
#include "sim/user_object.h"

namespace vram::sim {
namespace {

struct Registry {
  std::unordered_map<CUgraph, std::weak_ptr<Graph>> graphs;
  std::unordered_set<CUgraphNode> nodes;
  // The graphs that the program made and has not destroyed.
  std::unordered_map<CUgraph, std::shared_ptr<Graph>> owned;
};

Registry& registry() {
  static Registry* const instance = new Registry;
  return *instance;
}

void forget_memory(const GraphNode& node) {
  // A clone's nodes share the address of the node that made it.
  if (node.origin != nullptr) return;
  if (const auto* allocation = std::get_if<AllocationCall>(&node.operation)) {
    forget_graph_address(allocation->params.dptr);
  }
}

struct TypeOf {
  CUgraphNodeType operator()(const EmptyCall&) const { return CU_GRAPH_NODE_TYPE_EMPTY; }
  CUgraphNodeType operator()(const KernelCall&) const { return CU_GRAPH_NODE_TYPE_KERNEL; }
  CUgraphNodeType operator()(const CopyCall&) const { return CU_GRAPH_NODE_TYPE_MEMCPY; }
  CUgraphNodeType operator()(const FillCall&) const { return CU_GRAPH_NODE_TYPE_MEMSET; }
  CUgraphNodeType operator()(const HostCall&) const { return CU_GRAPH_NODE_TYPE_HOST; }
  CUgraphNodeType operator()(const EventRecordCall&) const {
    return CU_GRAPH_NODE_TYPE_EVENT_RECORD;
  }
  CUgraphNodeType operator()(const EventWaitCall&) const { return CU_GRAPH_NODE_TYPE_WAIT_EVENT; }
  CUgraphNodeType operator()(const MemoryOpsCall&) const { return CU_GRAPH_NODE_TYPE_BATCH_MEM_OP; }
  CUgraphNodeType operator()(const AllocationCall&) const { return CU_GRAPH_NODE_TYPE_MEM_ALLOC; }
  CUgraphNodeType operator()(const FreeCall&) const { return CU_GRAPH_NODE_TYPE_MEM_FREE; }
  CUgraphNodeType operator()(const ChildGraphCall&) const { return CU_GRAPH_NODE_TYPE_GRAPH; }
};

GraphNode& append(Graph& graph, Operation operation, Context* context) {
  GraphNode& node = graph.nodes.emplace_back();
  node.graph = &graph;
  node.operation = std::move(operation);
  node.context = context;
  registry().nodes.insert(node.handle());
  return node;
}

}  // namespace

CUgraphNodeType GraphNode::type() const { return std::visit(TypeOf{}, operation); }

Graph::~Graph() {
  const std::lock_guard held(graph_lock());
  registry().graphs.erase(handle());
  for (const GraphNode& node : nodes) {
    registry().nodes.erase(node.handle());
    forget_memory(node);
  }
  for (const auto& [object, references] : user_objects) {
    if (references > 0) release_user_object(object, references);
  }
}

bool Graph::has_memory_nodes() const {
  return std::any_of(nodes.begin(), nodes.end(), [](const GraphNode& node) {
    if (const auto* child = std::get_if<ChildGraphCall>(&node.operation)) {
      return child->graph->has_memory_nodes();
    }
    return std::holds_alternative<AllocationCall>(node.operation) ||
           std::holds_alternative<FreeCall>(node.operation);
  });
}

std::recursive_mutex& graph_lock() {
  static auto* const lock = new std::recursive_mutex;
  return *lock;
}

std::shared_ptr<Graph> create_graph() {
  auto graph = std::make_shared<Graph>();
  const std::lock_guard held(graph_lock());
  registry().graphs[graph->handle()] = graph;
  return graph;
}

void give_to_program(const std::shared_ptr<Graph>& graph) {
  const std::lock_guard held(graph_lock());
  registry().owned[graph->handle()] = graph;
}

std::shared_ptr<Graph> find_graph(CUgraph handle) {
  const std::lock_guard held(graph_lock());
  const auto found = registry().graphs.find(handle);
  return found == registry().graphs.end() ? nullptr : found->second.lock();
}

GraphNode* find_node(CUgraphNode handle) {
  const std::lock_guard held(graph_lock());
  return registry().nodes.contains(handle) ? reinterpret_cast<GraphNode*>(handle) : nullptr;
}

CUresult forget_graph(CUgraph handle) {
  std::shared_ptr<Graph> last;  // released after the lock
  const std::lock_guard held(graph_lock());
  const auto found = registry().owned.find(handle);
  if (found == registry().owned.end()) return CUDA_ERROR_INVALID_VALUE;
  last = found->second;
  registry().owned.erase(found);
  return CUDA_SUCCESS;
}

CUresult move_graph(Graph& child, const Graph& parent) {
  const std::lock_guard held(graph_lock());
  const auto found = registry().owned.find(child.handle());
  if (&child == &parent || found == registry().owned.end()) return CUDA_ERROR_INVALID_VALUE;
  if (child.executables > 0) return CUDA_ERROR_NOT_SUPPORTED;
  registry().owned.erase(found);
  child.moved = true;
  return CUDA_SUCCESS;
}

GraphNode* add_node(Graph& graph, Operation operation, Context& context,
                    const std::vector<GraphNode*>& dependencies) {
  const std::lock_guard held(graph_lock());
  GraphNode& node = append(graph, std::move(operation), &context);
  for (GraphNode* dependency : dependencies) add_edge(*dependency, node);
  return &node;
}

void add_edge(GraphNode& from, GraphNode& to) {
  if (std::find(to.dependencies.begin(), to.dependencies.end(), &from) != to.dependencies.end()) {
    return;
  }
  to.dependencies.push_back(&from);
  from.dependents.push_back(&to);
}

bool remove_edge(GraphNode& from, GraphNode& to) {
  return std::erase(to.dependencies, &from) + std::erase(from.dependents, &to) > 0;
}

void remove_node(GraphNode& node) {
  const std::lock_guard held(graph_lock());
  for (GraphNode* dependency : node.dependencies) std::erase(dependency->dependents, &node);
  for (GraphNode* dependent : node.dependents) std::erase(dependent->dependencies, &node);
  registry().nodes.erase(node.handle());
  forget_memory(node);
  node.graph->nodes.remove_if([&](const GraphNode& other) { return &other == &node; });
}

std::shared_ptr<Graph> clone_graph(const Graph& graph) {
  const std::lock_guard held(graph_lock());
  std::shared_ptr<Graph> clone = create_graph();
  std::unordered_map<const GraphNode*, GraphNode*> copies;
  for (const GraphNode& node : graph.nodes) {
    Operation operation = node.operation;
    if (auto* child = std::get_if<ChildGraphCall>(&operation)) {
      child->graph = clone_graph(*child->graph);
      child->moved = false;
    }
    GraphNode& copy = append(*clone, std::move(operation), node.context);
    copy.enabled = node.enabled;
    copy.attributes = node.attributes;
    copy.origin = const_cast<GraphNode*>(&node);
    copies[&node] = &copy;
  }
  for (const GraphNode& node : graph.nodes) {
    for (const GraphNode* dependency : node.dependencies) {
      add_edge(*copies[dependency], *copies[&node]);
    }
  }
  return clone;
}

std::vector<GraphNode*> execution_order(Graph& graph) {
  std::unordered_map<GraphNode*, size_t> open;
  std::vector<GraphNode*> order;
  for (GraphNode& node : graph.nodes) {
    open[&node] = node.dependencies.size();
    if (node.dependencies.empty()) order.push_back(&node);
  }
  for (size_t next = 0; next < order.size(); ++next) {
    for (GraphNode* dependent : order[next]->dependents) {
      if (--open[dependent] == 0) order.push_back(dependent);
    }
  }
  if (order.size() != graph.nodes.size()) order.clear();
  return order;
}

}  // namespace vram::sim
