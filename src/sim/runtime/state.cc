#include <mutex>
#include <utility>

#include "sim/runtime/runtime.h"

namespace vram::sim::runtime {
namespace {

constexpr int kMaxDevices = 64;

struct Devices {
  std::mutex mutex;
  CUcontext primary[kMaxDevices] = {};  // null until used
};

// Never destroyed: programs call the runtime from their own destructors.
Devices& devices() {
  static auto* const instance = new Devices;
  return *instance;
}

thread_local cudaError_t last_error = cudaSuccess;
thread_local int device_of_thread = 0;

CUresult primary_of(int device, CUcontext* out) {
  int count = 0;
  VRAM_RT_TRY(cuDeviceGetCount(&count));
  if (count == 0) return CUDA_ERROR_NO_DEVICE;
  if (device < 0 || device >= count || device >= kMaxDevices) return CUDA_ERROR_INVALID_DEVICE;
  const std::lock_guard held(devices().mutex);
  CUcontext& slot = devices().primary[device];
  if (slot == nullptr) VRAM_RT_TRY(cuDevicePrimaryCtxRetain(&slot, device));
  *out = slot;
  return CUDA_SUCCESS;
}

}  // namespace

cudaError_t finish(cudaError_t error) {
  // Not being ready is an answer, not a failure.
  if (error != cudaSuccess && error != cudaErrorNotReady) last_error = error;
  return error;
}

cudaError_t finish(CUresult result) { return finish(static_cast<cudaError_t>(result)); }

CUresult use_device() {
  VRAM_RT_TRY(cuInit(0));
  CUcontext current = nullptr;
  VRAM_RT_TRY(cuCtxGetCurrent(&current));
  if (current != nullptr) return CUDA_SUCCESS;
  VRAM_RT_TRY(primary_of(device_of_thread, &current));
  return cuCtxSetCurrent(current);
}

CUresult choose_device(int device) {
  VRAM_RT_TRY(cuInit(0));
  CUcontext context = nullptr;
  VRAM_RT_TRY(primary_of(device, &context));
  device_of_thread = device;
  return cuCtxSetCurrent(context);
}

int chosen_device() {
  CUdevice device = 0;
  CUcontext current = nullptr;
  const bool has_context =
      cuInit(0) == CUDA_SUCCESS && cuCtxGetCurrent(&current) == CUDA_SUCCESS && current != nullptr;
  return has_context && cuCtxGetDevice(&device) == CUDA_SUCCESS ? device : device_of_thread;
}

CUresult reset_device() {
  const std::lock_guard held(devices().mutex);
  const int device = chosen_device();
  if (std::exchange(devices().primary[device], nullptr) == nullptr) return CUDA_SUCCESS;
  VRAM_RT_TRY(cuCtxSetCurrent(nullptr));
  VRAM_RT_TRY(cuDevicePrimaryCtxReset(device));
  return cuDevicePrimaryCtxRelease(device);
}

}  // namespace vram::sim::runtime

using namespace vram::sim::runtime;

extern "C" {

cudaError_t cudaGetLastError() { return std::exchange(last_error, cudaSuccess); }
cudaError_t cudaPeekAtLastError() { return last_error; }

const char* cudaGetErrorString(cudaError_t error) {
  const char* text = nullptr;
  if (cuGetErrorString(static_cast<CUresult>(error), &text) == CUDA_SUCCESS) return text;
  return "unrecognized error code";
}

}  // extern "C"
