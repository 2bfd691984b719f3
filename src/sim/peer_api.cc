// Entry points: one card using another's memory. Every pair of cards can, as over NVLink; whether
// access is enabled is kept for the program's questions, but not enforced.
#include <cuda.h>

#include <mutex>
#include <set>
#include <utility>

#include "sim/context.h"
#include "sim/entry.h"
#include "sim/try.h"

using namespace vram::sim;

namespace {

struct Peers {
  std::mutex mutex;
  std::set<std::pair<uint64_t, uint64_t>> enabled;  // ids of contexts: from, to
};

Peers& peers() {
  static Peers* const instance = new Peers;
  return *instance;
}

}  // namespace

CUresult cuDeviceCanAccessPeer(int* can, CUdevice device, CUdevice peer) {
  VRAM_SIM_ENTER();
  VRAM_SIM_TRY(require_device(device));
  VRAM_SIM_TRY(require_device(peer));
  if (can == nullptr) return CUDA_ERROR_INVALID_VALUE;
  *can = device != peer ? 1 : 0;
  return CUDA_SUCCESS;
}

CUresult cuDeviceGetP2PAttribute(int* value, CUdevice_P2PAttribute attribute, CUdevice device,
                                 CUdevice peer) {
  VRAM_SIM_ENTER();
  VRAM_SIM_TRY(require_device(device));
  VRAM_SIM_TRY(require_device(peer));
  if (value == nullptr || device == peer) return CUDA_ERROR_INVALID_VALUE;
  switch (attribute) {
    case CU_DEVICE_P2P_ATTRIBUTE_PERFORMANCE_RANK:
      *value = 0;
      return CUDA_SUCCESS;
    case CU_DEVICE_P2P_ATTRIBUTE_ACCESS_SUPPORTED:
    case CU_DEVICE_P2P_ATTRIBUTE_NATIVE_ATOMIC_SUPPORTED:
    case CU_DEVICE_P2P_ATTRIBUTE_CUDA_ARRAY_ACCESS_SUPPORTED:
      *value = 1;
      return CUDA_SUCCESS;
    default:
      *value = 0;
      return CUDA_SUCCESS;
  }
}

CUresult cuCtxEnablePeerAccess(CUcontext peer_handle, unsigned int flags) {
  VRAM_SIM_ENTER();
  Context* context = nullptr;
  VRAM_SIM_TRY(require_context(&context));
  Context* peer = nullptr;
  if (peer_handle == nullptr || flags != 0) return CUDA_ERROR_INVALID_VALUE;
  VRAM_SIM_TRY(find_context(peer_handle, &peer));
  if (peer->device == context->device) return CUDA_ERROR_INVALID_DEVICE;
  const std::lock_guard held(peers().mutex);
  const bool added = peers().enabled.emplace(context->id, peer->id).second;
  return added ? CUDA_SUCCESS : CUDA_ERROR_PEER_ACCESS_ALREADY_ENABLED;
}

CUresult cuCtxDisablePeerAccess(CUcontext peer_handle) {
  VRAM_SIM_ENTER();
  Context* context = nullptr;
  VRAM_SIM_TRY(require_context(&context));
  Context* peer = nullptr;
  if (peer_handle == nullptr) return CUDA_ERROR_INVALID_VALUE;
  VRAM_SIM_TRY(find_context(peer_handle, &peer));
  const std::lock_guard held(peers().mutex);
  const bool removed = peers().enabled.erase({context->id, peer->id}) == 1;
  return removed ? CUDA_SUCCESS : CUDA_ERROR_PEER_ACCESS_NOT_ENABLED;
}
