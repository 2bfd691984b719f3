// cuUserObject…: objects of the program that live as long as somebody refers to them, graphs too.
#include <cuda.h>

#include <mutex>
#include <unordered_map>

#include "sim/graph.h"
#include "sim/stream_entry.h"
#include "sim/try.h"
#include "sim/user_object.h"

namespace vram::sim {
namespace {

struct UserObject {
  void* pointer;
  CUhostFn destroy;
  uint64_t references;
};

struct Objects {
  std::mutex mutex;
  std::unordered_map<CUuserObject, UserObject> all;
  uintptr_t next = 1;
};

Objects& objects() {
  static Objects* const instance = new Objects;
  return *instance;
}

CUresult create(CUuserObject* out, void* pointer, CUhostFn destroy, unsigned count,
                unsigned flags) {
  if (out == nullptr || destroy == nullptr || count == 0 ||
      flags != CU_USER_OBJECT_NO_DESTRUCTOR_SYNC) {
    return CUDA_ERROR_INVALID_VALUE;
  }
  VRAM_SIM_TRY(require_initialized());
  const std::lock_guard held(objects().mutex);
  const auto handle = reinterpret_cast<CUuserObject>(objects().next++ << 4);
  objects().all[handle] = {pointer, destroy, count};
  *out = handle;
  return CUDA_SUCCESS;
}

CUresult retain(CUuserObject handle, unsigned count) {
  if (count == 0) return CUDA_ERROR_INVALID_VALUE;
  VRAM_SIM_TRY(require_initialized());
  const std::lock_guard held(objects().mutex);
  const auto found = objects().all.find(handle);
  if (found == objects().all.end()) return CUDA_ERROR_INVALID_VALUE;
  found->second.references += count;
  return CUDA_SUCCESS;
}

CUresult release(CUuserObject handle, unsigned count) {
  VRAM_SIM_TRY(require_initialized());
  return release_user_object(handle, count);
}

CUresult graph_retain(CUgraph graph_handle, CUuserObject handle, unsigned count, unsigned flags) {
  if (count == 0 || flags > CU_GRAPH_USER_OBJECT_MOVE) return CUDA_ERROR_INVALID_VALUE;
  VRAM_SIM_TRY(require_initialized());
  const std::shared_ptr<Graph> graph = find_graph(graph_handle);
  if (!graph) return CUDA_ERROR_INVALID_VALUE;
  // A move hands over references that the program has.
  if (flags != CU_GRAPH_USER_OBJECT_MOVE) VRAM_SIM_TRY(retain(handle, count));
  const std::lock_guard held(graph_lock());
  graph->user_objects.emplace_back(handle, count);
  return CUDA_SUCCESS;
}

CUresult graph_release(CUgraph graph_handle, CUuserObject handle, unsigned count) {
  if (count == 0) return CUDA_ERROR_INVALID_VALUE;
  VRAM_SIM_TRY(require_initialized());
  const std::shared_ptr<Graph> graph = find_graph(graph_handle);
  if (!graph) return CUDA_ERROR_INVALID_VALUE;
  {
    const std::lock_guard held(graph_lock());
    for (auto& [object, references] : graph->user_objects) {
      if (object != handle || references < count) continue;
      references -= count;
      return release_user_object(handle, count);
    }
  }
  return CUDA_ERROR_INVALID_VALUE;
}

}  // namespace

CUresult release_user_object(CUuserObject handle, unsigned count) {
  UserObject last{};
  {
    const std::lock_guard held(objects().mutex);
    const auto found = objects().all.find(handle);
    if (found == objects().all.end() || found->second.references < count) {
      return CUDA_ERROR_INVALID_VALUE;
    }
    found->second.references -= count;
    if (found->second.references > 0) return CUDA_SUCCESS;
    last = found->second;
    objects().all.erase(found);
  }
  last.destroy(last.pointer);
  return CUDA_SUCCESS;
}

}  // namespace vram::sim

using namespace vram::sim;

extern "C" {

VRAM_SIM_ONE(cuUserObjectCreate, create,
             (CUuserObject * object, void* pointer, CUhostFn destroy, unsigned count,
              unsigned flags),
             (object, pointer, destroy, count, flags))
VRAM_SIM_ONE(cuUserObjectRetain, retain, (CUuserObject object, unsigned count), (object, count))
VRAM_SIM_ONE(cuUserObjectRelease, release, (CUuserObject object, unsigned count), (object, count))
VRAM_SIM_ONE(cuGraphRetainUserObject, graph_retain,
             (CUgraph graph, CUuserObject object, unsigned count, unsigned flags),
             (graph, object, count, flags))
VRAM_SIM_ONE(cuGraphReleaseUserObject, graph_release,
             (CUgraph graph, CUuserObject object, unsigned count), (graph, object, count))

}  // extern "C"
