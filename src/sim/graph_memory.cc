#include "sim/graph_memory.h"

#include <mutex>
#include <unordered_map>

#include "sim/pool.h"
#include "sim/try.h"

namespace vram::sim {
namespace {

struct Addresses {
  std::mutex mutex;
  std::unordered_map<CUdeviceptr, bool> being_freed;  // by base: a free is on a stream
};

Addresses& addresses() {
  static Addresses* const instance = new Addresses;
  return *instance;
}

void set_being_freed(CUdeviceptr base, bool being_freed) {
  const std::lock_guard held(addresses().mutex);
  const auto found = addresses().being_freed.find(base);
  if (found != addresses().being_freed.end()) found->second = being_freed;
}

}  // namespace

CUresult reserve_graph_address(int device, size_t bytes, CUdeviceptr* out) {
  VRAM_SIM_TRY(graph_memory_reserve(device, bytes, out));
  const std::lock_guard held(addresses().mutex);
  addresses().being_freed[*out] = false;
  return CUDA_SUCCESS;
}

void forget_graph_address(CUdeviceptr base) {
  {
    const std::lock_guard held(addresses().mutex);
    addresses().being_freed.erase(base);
  }
  graph_memory_forget(base);
}

bool is_graph_address(CUdeviceptr base) {
  const std::lock_guard held(addresses().mutex);
  return addresses().being_freed.contains(base);
}

bool is_graph_memory_live(CUdeviceptr base) {
  {
    const std::lock_guard held(addresses().mutex);
    const auto found = addresses().being_freed.find(base);
    if (found != addresses().being_freed.end() && found->second) return false;
  }
  return graph_memory_is_committed(base);
}

CUresult free_graph_memory(const std::shared_ptr<Stream>& stream, CUdeviceptr base) {
  if (!is_graph_memory_live(base)) return CUDA_ERROR_INVALID_VALUE;
  set_being_freed(base, true);
  submit(stream, [base] {
    const CUresult result = graph_memory_uncommit(base);
    set_being_freed(base, false);
    return result;
  });
  return CUDA_SUCCESS;
}

}  // namespace vram::sim
