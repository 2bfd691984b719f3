// Memory of graph nodes. Its accounts are kept by device: what is used, and what is reserved for
// graphs in whole 32 MiB; where in the device's graph pool a node's bytes lie is not simulated.
#include <algorithm>
#include <map>
#include <mutex>

#include "sim/address_space.h"
#include "sim/driver.h"
#include "sim/graph_pool_life.h"
#include "sim/identity.h"
#include "sim/memory.h"
#include "sim/pool.h"
#include "sim/registry.h"
#include "sim/try.h"

namespace vram::sim {
namespace {

constexpr uint64_t kGraphPiece = 32ull << 20;
constexpr uint64_t kBlockGranule = 512;

struct Node {
  int device = 0;
  size_t bytes = 0;
  bool committed = false;
  bool forgotten = false;
};

struct GraphPools {
  std::mutex mutex;
  std::map<CUdeviceptr, Node> nodes;
  GraphMemory usage[kMaxCards];
};

GraphPools& graph_pools() {
  static GraphPools* const instance = new GraphPools;
  return *instance;
}

uint64_t address_bytes(const Node& node) { return round_up(node.bytes, kPieceBytes); }

// The caller holds the lock.
void uncommit(CUdeviceptr base, Node& node) {
  Allocation allocation;
  (void)take_allocation(base, MemoryKind::kGraph, &allocation);
  graph_pools().usage[node.device].used -= round_up(node.bytes, kBlockGranule);
  node.committed = false;
}

void set_reserved(int device, uint64_t bytes) {
  GraphMemory& usage = graph_pools().usage[device];
  usage.reserved = bytes;
  usage.reserved_high = std::max(usage.reserved_high, bytes);
}

}  // namespace

CUresult graph_memory_reserve(int device, size_t bytes, CUdeviceptr* out) {
  if (bytes == 0) return CUDA_ERROR_INVALID_VALUE;
  AddressSpace* const space = AddressSpace::get();
  const bool fits = bytes <= driver().machine->card_bytes(card_of(device));
  const CUdeviceptr base =
      space == nullptr || !fits ? 0 : space->allocate(round_up(bytes, kPieceBytes));
  if (base == 0) return CUDA_ERROR_OUT_OF_MEMORY;
  const std::lock_guard held(graph_pools().mutex);
  graph_pools().nodes[base] = {device, bytes};
  *out = base;
  return CUDA_SUCCESS;
}

CUresult graph_memory_commit(CUdeviceptr base) {
  const std::lock_guard held(graph_pools().mutex);
  const auto found = graph_pools().nodes.find(base);
  if (found == graph_pools().nodes.end()) return CUDA_ERROR_INVALID_VALUE;
  Node& node = found->second;
  if (node.committed) return CUDA_SUCCESS;
  GraphMemory& usage = graph_pools().usage[node.device];
  const uint64_t used = usage.used + round_up(node.bytes, kBlockGranule);
  const uint64_t wanted = round_up(used, kGraphPiece);
  if (wanted > usage.reserved) {
    VRAM_SIM_TRY(charge(node.device, wanted - usage.reserved));
    set_reserved(node.device, wanted);
  }
  usage.used = used;
  usage.used_high = std::max(usage.used_high, used);
  node.committed = true;
  Allocation allocation;
  allocation.base = base;
  allocation.bytes = node.bytes;
  allocation.kind = MemoryKind::kGraph;
  allocation.device = node.device;
  return register_allocation(allocation) ? CUDA_SUCCESS : CUDA_ERROR_UNKNOWN;
}

CUresult graph_memory_uncommit(CUdeviceptr base) {
  const std::lock_guard held(graph_pools().mutex);
  const auto found = graph_pools().nodes.find(base);
  if (found == graph_pools().nodes.end() || !found->second.committed) {
    return CUDA_ERROR_INVALID_VALUE;
  }
  uncommit(base, found->second);
  if (found->second.forgotten) {
    AddressSpace::get()->release(base, address_bytes(found->second));
    graph_pools().nodes.erase(found);
  }
  return CUDA_SUCCESS;
}

bool graph_memory_is_committed(CUdeviceptr base) {
  const std::lock_guard held(graph_pools().mutex);
  const auto found = graph_pools().nodes.find(base);
  return found != graph_pools().nodes.end() && found->second.committed;
}

void graph_memory_forget(CUdeviceptr base) {
  const std::lock_guard held(graph_pools().mutex);
  const auto found = graph_pools().nodes.find(base);
  if (found == graph_pools().nodes.end()) return;
  found->second.forgotten = true;
  if (found->second.committed) return;
  AddressSpace::get()->release(base, address_bytes(found->second));
  graph_pools().nodes.erase(found);
}

void graph_memory_trim(int device) {
  const std::lock_guard held(graph_pools().mutex);
  for (const auto& [base, node] : graph_pools().nodes) {
    if (node.device == device && !node.committed) {
      AddressSpace::get()->discard(base, address_bytes(node));
    }
  }
  const GraphMemory& usage = graph_pools().usage[device];
  const uint64_t wanted = round_up(usage.used, kGraphPiece);
  uncharge(device, usage.reserved - wanted);
  set_reserved(device, wanted);
}

void drop_graph_memory(int device) {
  {
    const std::lock_guard held(graph_pools().mutex);
    for (auto& [base, node] : graph_pools().nodes) {
      if (node.device == device && node.committed) uncommit(base, node);
    }
  }
  graph_memory_trim(device);
}

GraphMemory graph_memory_usage(int device) {
  const std::lock_guard held(graph_pools().mutex);
  return graph_pools().usage[device];
}

void graph_memory_reset_high(int device, CUgraphMem_attribute which) {
  const std::lock_guard held(graph_pools().mutex);
  GraphMemory& usage = graph_pools().usage[device];
  if (which == CU_GRAPH_MEM_ATTR_USED_MEM_HIGH) usage.used_high = usage.used;
  if (which == CU_GRAPH_MEM_ATTR_RESERVED_MEM_HIGH) usage.reserved_high = usage.reserved;
}

}  // namespace vram::sim
