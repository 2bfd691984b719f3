// Memory nodes of graphs. A graph takes its memory at its first launch, from a reserve that the
// device keeps for graphs and that only grows until it is trimmed. So a graph with memory nodes is
// noted when it is instantiated, and its launch is covered by the most it can add; what the reserve
// really grew by is read afterwards (10 ns). A graph without memory nodes, which is nearly every
// graph, costs one look at a counter.

#include <sys/mman.h>

#include "interpose/capture.h"
#include "interpose/change.h"
#include "interpose/gated.h"
#include "interpose/own_pools.h"
#include "interpose/room.h"
#include "interpose/trace.h"

namespace vram::interpose {
namespace {

using driver::real;
using ledger::Account;

constexpr std::uint64_t kPiece = 32 * kMiB;
constexpr unsigned kMaxDepth = 16;  // child graphs inside child graphs

// An exec in its table value: bytes of its memory nodes in pieces of 32 MiB (32 bits), device (6),
// and whether it was launched: from then on its memory is part of the reserve.
constexpr std::uint64_t kLaunched = std::uint64_t{1} << 63;
std::uint64_t bytes_of(std::uint64_t value) { return (value & 0xffffffff) * kPiece; }
std::uint32_t device_of(std::uint64_t value) {
  return static_cast<std::uint32_t>(value >> 32 & 63);
}

struct NodeSum {
  std::uint64_t bytes;
  std::uint64_t asked;
  int device;
};

void sum_nodes(CUgraph graph, unsigned depth, NodeSum* sum);

void sum_node(CUgraphNode node, unsigned depth, NodeSum* sum) {
  CUgraphNodeType type = CU_GRAPH_NODE_TYPE_EMPTY;
  if (real.cuGraphNodeGetType(node, &type) != CUDA_SUCCESS) return;
  CUgraph child = nullptr;
  CUDA_MEM_ALLOC_NODE_PARAMS params{};
  if (type == CU_GRAPH_NODE_TYPE_GRAPH &&
      real.cuGraphChildGraphNodeGetGraph(node, &child) == CUDA_SUCCESS) {
    sum_nodes(child, depth + 1, sum);
  } else if (type == CU_GRAPH_NODE_TYPE_MEM_ALLOC &&
             real.cuGraphMemAllocNodeGetParams(node, &params) == CUDA_SUCCESS &&
             params.poolProps.location.type == CU_MEM_LOCATION_TYPE_DEVICE) {
    sum->bytes += round_up(params.bytesize, 2 * kMiB);
    sum->asked += params.bytesize;
    sum->device = params.poolProps.location.id;
  }
}

void sum_nodes(CUgraph graph, unsigned depth, NodeSum* sum) {
  constexpr std::size_t kOnStack = 256;
  CUgraphNode nodes[kOnStack];
  std::size_t count = 0;
  if (depth > kMaxDepth || real.cuGraphGetNodes(graph, nullptr, &count) != CUDA_SUCCESS) return;
  if (count <= kOnStack) {
    if (real.cuGraphGetNodes(graph, nodes, &count) != CUDA_SUCCESS) return;
    for (std::size_t i = 0; i < count; ++i) sum_node(nodes[i], depth, sum);
    return;
  }
  const std::size_t size = count * sizeof(CUgraphNode);
  void* at = mmap(nullptr, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (at == MAP_FAILED) return;
  auto* many = static_cast<CUgraphNode*>(at);
  if (real.cuGraphGetNodes(graph, many, &count) == CUDA_SUCCESS) {
    for (std::size_t i = 0; i < count; ++i) sum_node(many[i], depth, sum);
  }
  munmap(at, size);
}

// The reserve of the device as it is now becomes its charge; `cover` is pending for growth.
void settle(Device& device, CUdevice ordinal, std::uint64_t cover) {
  const Account& account = device.account;
  const Change change(account);
  std::uint64_t charged = device.graph_bytes.load(std::memory_order_acquire);
  std::uint64_t next = 0;
  do {
    const RelaxedCapture relaxed;
    cuuint64_t reserved = 0;
    if (real.cuDeviceGetGraphMemAttribute(ordinal, CU_GRAPH_MEM_ATTR_RESERVED_MEM_CURRENT,
                                          &reserved) != CUDA_SUCCESS) {
      reserved = charged;
    }
    next = reserved;
  } while (!device.graph_bytes.compare_exchange_weak(charged, next));
  account.add_part(wire::Part::kGraphs,
                   static_cast<std::int64_t>(next) - static_cast<std::int64_t>(charged));
  const std::uint64_t growth = next > charged ? next - charged : 0;
  const std::uint64_t paid = growth < cover ? growth : cover;
  if (paid > 0) account.commit(paid);
  if (cover > paid) account.roll_back(cover - paid);
  if (growth > paid) account.charge(growth - paid);
  if (next < charged) account.uncharge(charged - next);
}

void note_exec(CUgraphExec exec, CUgraph graph) {
  NodeSum sum{0, 0, 0};
  if (!joined() || real.cuGraphMemAllocNodeGetParams == nullptr) return;
  sum_nodes(graph, 0, &sum);
  if (sum.bytes == 0 || device_at(sum.device) == nullptr) return;
  const std::uint64_t pieces = round_up(sum.bytes, kPiece) / kPiece;
  const std::uint64_t value = pieces | static_cast<std::uint64_t>(sum.device) << 32;
  if (!process().execs.insert(reinterpret_cast<std::uint64_t>(exec), value)) return;
  process().graphs_with_memory.fetch_add(1, std::memory_order_release);
  if (is_traced()) note_taken({Way::kGraph, sum.asked, {}, device_at(sum.device)}, key_of(exec));
}

template <typename Call>
CUresult instantiate(CUgraphExec* exec, CUgraph graph, Call call) {
  const residency::Through through;
  const CUresult result = call();
  if (result == CUDA_SUCCESS && exec != nullptr) note_exec(*exec, graph);
  return result;
}

// A function of its own, like what gated.h has beyond the jump.
template <auto kFunction>
[[gnu::noinline]] CUresult launch_with_memory(CUgraphExec exec, CUstream stream) {
  VRAM_HAS(real.*kFunction);
  Guard guard;
  const auto call = [&] {
    const residency::Through through;
    return (real.*kFunction)(exec, stream);
  };
  if (guard.nested()) return call();
  base::LevelTable::Entry* entry = process().execs.find(reinterpret_cast<std::uint64_t>(exec));
  if (entry == nullptr) return call();
  const std::uint64_t value = entry->value.load(std::memory_order_acquire);
  const std::uint64_t cover = (value & kLaunched) != 0 ? 0 : bytes_of(value);
  const auto ordinal = static_cast<CUdevice>(device_of(value));
  Device& device = process().device[ordinal];
  return with_room_to_stay(device, cover, [&] {
    make_room(device, cover);
    if (!device.account.reserve(cover)) return CUDA_ERROR_OUT_OF_MEMORY;
    const CUresult result = (real.*kFunction)(exec, stream);
    if (result == CUDA_SUCCESS) entry->value.fetch_or(kLaunched, std::memory_order_release);
    settle(device, ordinal, cover);
    return result;
  });
}

// What launches pay that have no memory nodes: this.
bool no_graph_has_memory() {
  return process().graphs_with_memory.load(std::memory_order_relaxed) == 0;
}

}  // namespace
}  // namespace vram::interpose

using namespace vram::interpose;
using vram::driver::real;

VRAM_EXPORT CUresult cuGraphInstantiate(CUgraphExec* exec, CUgraph graph, CUgraphNode* node,
                                        char* log, size_t size) {
  VRAM_ENTER(cuGraphInstantiate, exec, graph, node, log, size);
  return instantiate(exec, graph,
                     [&] { return real.cuGraphInstantiate(exec, graph, node, log, size); });
}

VRAM_EXPORT CUresult cuGraphInstantiate_v2(CUgraphExec* exec, CUgraph graph, CUgraphNode* node,
                                           char* log, size_t size) {
  VRAM_ENTER(cuGraphInstantiate_v2, exec, graph, node, log, size);
  return instantiate(exec, graph,
                     [&] { return real.cuGraphInstantiate_v2(exec, graph, node, log, size); });
}

VRAM_EXPORT CUresult cuGraphInstantiateWithFlags(CUgraphExec* exec, CUgraph graph,
                                                 unsigned long long flags) {
  VRAM_ENTER(cuGraphInstantiateWithFlags, exec, graph, flags);
  return instantiate(exec, graph,
                     [&] { return real.cuGraphInstantiateWithFlags(exec, graph, flags); });
}

VRAM_EXPORT CUresult cuGraphInstantiateWithParams(CUgraphExec* exec, CUgraph graph,
                                                  CUDA_GRAPH_INSTANTIATE_PARAMS* params) {
  VRAM_ENTER(cuGraphInstantiateWithParams, exec, graph, params);
  return instantiate(exec, graph,
                     [&] { return real.cuGraphInstantiateWithParams(exec, graph, params); });
}

VRAM_EXPORT CUresult cuGraphInstantiateWithParams_ptsz(CUgraphExec* exec, CUgraph graph,
                                                       CUDA_GRAPH_INSTANTIATE_PARAMS* params) {
  VRAM_ENTER(cuGraphInstantiateWithParams_ptsz, exec, graph, params);
  return instantiate(exec, graph,
                     [&] { return real.cuGraphInstantiateWithParams_ptsz(exec, graph, params); });
}

VRAM_EXPORT CUresult cuGraphExecDestroy(CUgraphExec exec) {
  VRAM_ENTER(cuGraphExecDestroy, exec);
  std::uint64_t value = 0;
  const auto key = reinterpret_cast<std::uint64_t>(exec);
  const bool known = process().execs.take(key, &value);
  const auto call = [&] { return real.cuGraphExecDestroy(exec); };
  const CUresult result = known ? freed(KeySpace::kExec, key, nullptr, call) : call();
  if (!known) return result;
  if (result != CUDA_SUCCESS) {
    (void)process().execs.insert(key, value);
    return result;
  }
  process().graphs_with_memory.fetch_sub(1, std::memory_order_release);
  return result;
}

VRAM_EXPORT CUresult cuGraphLaunch(CUgraphExec exec, CUstream stream) {
  if (no_graph_has_memory()) {
    VRAM_GATED(cuGraphLaunch, exec, stream);
  }
  return launch_with_memory<&vram::driver::Real::cuGraphLaunch>(exec, stream);
}

VRAM_EXPORT CUresult cuGraphLaunch_ptsz(CUgraphExec exec, CUstream stream) {
  if (no_graph_has_memory()) {
    VRAM_GATED(cuGraphLaunch_ptsz, exec, stream);
  }
  return launch_with_memory<&vram::driver::Real::cuGraphLaunch_ptsz>(exec, stream);
}

VRAM_EXPORT CUresult cuGraphUpload(CUgraphExec exec, CUstream stream) {
  if (no_graph_has_memory()) {
    VRAM_GATED(cuGraphUpload, exec, stream);
  }
  return launch_with_memory<&vram::driver::Real::cuGraphUpload>(exec, stream);
}

VRAM_EXPORT CUresult cuGraphUpload_ptsz(CUgraphExec exec, CUstream stream) {
  if (no_graph_has_memory()) {
    VRAM_GATED(cuGraphUpload_ptsz, exec, stream);
  }
  return launch_with_memory<&vram::driver::Real::cuGraphUpload_ptsz>(exec, stream);
}

// After a trim every graph has to get its memory again.
VRAM_EXPORT CUresult cuDeviceGraphMemTrim(CUdevice ordinal) {
  VRAM_ENTER(cuDeviceGraphMemTrim, ordinal);
  Device* device = device_at(ordinal);
  if (device == nullptr) return real.cuDeviceGraphMemTrim(ordinal);
  const Change change(device->account);
  const CUresult result = real.cuDeviceGraphMemTrim(ordinal);
  if (result != CUDA_SUCCESS) return result;
  process().execs.for_each([](std::uint64_t exec, std::uint64_t) {
    vram::base::LevelTable::Entry* entry = process().execs.find(exec);
    if (entry != nullptr) entry->value.fetch_and(~kLaunched, std::memory_order_release);
  });
  settle(*device, ordinal, 0);
  return result;
}
