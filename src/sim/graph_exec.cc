#include "sim/graph_exec.h"

#include <algorithm>
#include <unordered_map>
#include <unordered_set>

#include "sim/graph_memory.h"
#include "sim/launch.h"
#include "sim/pool.h"
#include "sim/try.h"

namespace vram::sim {
namespace {

std::unordered_map<CUgraphExec, std::shared_ptr<GraphExec>>& executables() {
  static auto* const all = new std::unordered_map<CUgraphExec, std::shared_ptr<GraphExec>>;
  return *all;
}

// Nodes of embedded graphs stand in the place of their node.
bool flatten(Graph& graph, GraphExec::Program* out) {
  const std::vector<GraphNode*> order = execution_order(graph);
  if (order.empty() && !graph.nodes.empty()) return false;
  for (const GraphNode* node : order) {
    if (!node->enabled) continue;
    if (const auto* child = std::get_if<ChildGraphCall>(&node->operation)) {
      if (!flatten(*child->graph, out)) return false;
    } else {
      out->emplace_back(node->operation, node->context);
    }
  }
  return true;
}

std::shared_ptr<const GraphExec::Program> program_of(GraphExec& exec) {
  if (!exec.program) {
    auto program = std::make_shared<GraphExec::Program>();
    if (flatten(*exec.copy, program.get())) exec.program = std::move(program);
  }
  return exec.program;
}

// The addresses that one run of the program leaves allocated.
std::vector<CUdeviceptr> left_allocated(const GraphExec::Program& program) {
  std::unordered_set<CUdeviceptr> open;
  for (const auto& [operation, context] : program) {
    if (const auto* allocation = std::get_if<AllocationCall>(&operation)) {
      open.insert(allocation->params.dptr);
    } else if (const auto* release = std::get_if<FreeCall>(&operation)) {
      open.erase(release->address);
    }
  }
  return {open.begin(), open.end()};
}

CUresult take_memory(const GraphExec::Program& program) {
  for (const auto& [operation, context] : program) {
    if (const auto* allocation = std::get_if<AllocationCall>(&operation)) {
      VRAM_SIM_TRY(graph_memory_commit(allocation->params.dptr));
    } else if (const auto* kernel = std::get_if<KernelCall>(&operation)) {
      VRAM_SIM_TRY(provide_for_kernel(*kernel));
    }
  }
  return CUDA_SUCCESS;
}

CUresult run_program(const GraphExec::Program& program) {
  for (const auto& [operation, context] : program) VRAM_SIM_TRY(run(operation, *context));
  return CUDA_SUCCESS;
}

// Memory that an earlier launch left allocated is in the way, unless the executable frees it.
CUresult clear_the_way(const GraphExec& exec, const GraphExec::Program& program,
                       const std::shared_ptr<Stream>& stream) {
  for (const CUdeviceptr address : left_allocated(program)) {
    if (!is_graph_memory_live(address)) continue;
    if ((exec.flags & CUDA_GRAPH_INSTANTIATE_FLAG_AUTO_FREE_ON_LAUNCH) == 0) {
      return CUDA_ERROR_INVALID_VALUE;
    }
    VRAM_SIM_TRY(free_graph_memory(stream, address));
  }
  return CUDA_SUCCESS;
}

bool has_same_edges(const GraphNode& left, const GraphNode& right,
                    const std::unordered_map<const GraphNode*, size_t>& places) {
  if (left.dependencies.size() != right.dependencies.size()) return false;
  return std::equal(
      left.dependencies.begin(), left.dependencies.end(), right.dependencies.begin(),
      [&](const GraphNode* a, const GraphNode* b) { return places.at(a) == places.at(b); });
}

void number_nodes(const Graph& graph, std::unordered_map<const GraphNode*, size_t>* places) {
  size_t place = 0;
  for (const GraphNode& node : graph.nodes) (*places)[&node] = place++;
}

UpdateOutcome compare(const Graph& old, const Graph& graph) {
  if (old.nodes.size() != graph.nodes.size()) {
    return {CU_GRAPH_EXEC_UPDATE_ERROR_TOPOLOGY_CHANGED, nullptr};
  }
  std::unordered_map<const GraphNode*, size_t> places;
  number_nodes(old, &places);
  number_nodes(graph, &places);
  auto fresh = graph.nodes.begin();
  for (const GraphNode& node : old.nodes) {
    auto* const candidate = const_cast<GraphNode*>(&*fresh++);
    if (node.type() != candidate->type()) {
      return {CU_GRAPH_EXEC_UPDATE_ERROR_NODE_TYPE_CHANGED, candidate};
    }
    if (!has_same_edges(node, *candidate, places)) {
      return {CU_GRAPH_EXEC_UPDATE_ERROR_TOPOLOGY_CHANGED, candidate};
    }
    if (const auto* child = std::get_if<ChildGraphCall>(&node.operation)) {
      const auto& other = std::get<ChildGraphCall>(candidate->operation);
      const UpdateOutcome outcome = compare(*child->graph, *other.graph);
      if (outcome.result != CU_GRAPH_EXEC_UPDATE_SUCCESS) return outcome;
    }
  }
  return {};
}

void take_over(Graph& old, const Graph& graph) {
  auto fresh = graph.nodes.begin();
  for (GraphNode& node : old.nodes) {
    if (const auto* child = std::get_if<ChildGraphCall>(&node.operation)) {
      take_over(*child->graph, *std::get<ChildGraphCall>(fresh->operation).graph);
    } else {
      node.operation = fresh->operation;
      node.context = fresh->context;
    }
    ++fresh;
  }
}

}  // namespace

GraphExec::~GraphExec() {
  const std::lock_guard held(graph_lock());
  if (source) --source->executables;
}

CUresult instantiate(const std::shared_ptr<Graph>& graph, cuuint64_t flags,
                     std::shared_ptr<GraphExec>* out) {
  const std::lock_guard held(graph_lock());
  if (graph->moved) return CUDA_ERROR_NOT_SUPPORTED;
  if (graph->executables > 0 && graph->has_memory_nodes()) return CUDA_ERROR_NOT_SUPPORTED;
  auto exec = std::make_shared<GraphExec>();
  exec->copy = clone_graph(*graph);
  exec->flags = flags;
  if (!program_of(*exec)) return CUDA_ERROR_INVALID_VALUE;
  exec->source = graph;
  ++graph->executables;
  executables()[exec->handle()] = exec;
  *out = std::move(exec);
  return CUDA_SUCCESS;
}

std::shared_ptr<GraphExec> find_exec(CUgraphExec handle) {
  const std::lock_guard held(graph_lock());
  const auto found = executables().find(handle);
  return found == executables().end() ? nullptr : found->second;
}

CUresult destroy_exec(CUgraphExec handle) {
  std::shared_ptr<GraphExec> last;  // released after the lock
  const std::lock_guard held(graph_lock());
  const auto found = executables().find(handle);
  if (found == executables().end()) return CUDA_ERROR_INVALID_VALUE;
  last = std::move(found->second);
  executables().erase(found);
  return CUDA_SUCCESS;
}

CUresult launch(GraphExec& exec, const std::shared_ptr<Stream>& stream) {
  const std::lock_guard held(graph_lock());
  std::shared_ptr<const GraphExec::Program> program = program_of(exec);
  if (!program) return CUDA_ERROR_INVALID_VALUE;
  VRAM_SIM_TRY(clear_the_way(exec, *program, stream));
  VRAM_SIM_TRY(take_memory(*program));
  // The graph stays alive while the work does, and its addresses with it.
  exec.last = submit(stream, [program, source = exec.source] { return run_program(*program); },
                     {exec.last});
  return CUDA_SUCCESS;
}

CUresult upload(GraphExec& exec) {
  const std::lock_guard held(graph_lock());
  const std::shared_ptr<const GraphExec::Program> program = program_of(exec);
  return program ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}

GraphNode* node_in(GraphExec& exec, const GraphNode& node) {
  for (GraphNode& copy : exec.copy->nodes) {
    if (copy.origin == &node) return &copy;
  }
  return nullptr;
}

UpdateOutcome update(GraphExec& exec, const std::shared_ptr<Graph>& graph) {
  const std::lock_guard held(graph_lock());
  if (graph->moved || graph->has_memory_nodes() || exec.copy->has_memory_nodes()) {
    return {CU_GRAPH_EXEC_UPDATE_ERROR_NOT_SUPPORTED, nullptr};
  }
  const UpdateOutcome outcome = compare(*exec.copy, *graph);
  if (outcome.result != CU_GRAPH_EXEC_UPDATE_SUCCESS) return outcome;
  take_over(*exec.copy, *graph);
  exec.program.reset();
  return outcome;
}

}  // namespace vram::sim
