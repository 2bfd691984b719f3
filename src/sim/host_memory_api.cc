// Entry points: pinned and registered host memory.
#include <cuda.h>

#include "sim/context.h"
#include "sim/costs.h"
#include "sim/entry.h"
#include "sim/host_memory.h"
#include "sim/memory.h"
#include "sim/registry.h"
#include "sim/stream.h"
#include "sim/try.h"

using namespace vram::sim;

namespace {

constexpr unsigned kAllocFlags =
    CU_MEMHOSTALLOC_PORTABLE | CU_MEMHOSTALLOC_DEVICEMAP | CU_MEMHOSTALLOC_WRITECOMBINED;
constexpr unsigned kRegisterFlags = CU_MEMHOSTREGISTER_PORTABLE | CU_MEMHOSTREGISTER_DEVICEMAP |
                                    CU_MEMHOSTREGISTER_IOMEMORY | CU_MEMHOSTREGISTER_READ_ONLY;

CUresult allocate(void** out, size_t bytes, unsigned flags) {
  Context* context = nullptr;
  VRAM_SIM_TRY(require_context(&context));
  VRAM_SIM_TRY(check_capture_allows_unsafe_call());
  if (out == nullptr || (flags & ~kAllocFlags) != 0) return CUDA_ERROR_INVALID_VALUE;
  return allocate_pinned(*context, bytes, flags | CU_MEMHOSTALLOC_DEVICEMAP, out);
}

CUresult register_range(void* address, size_t bytes, unsigned flags) {
  Context* context = nullptr;
  VRAM_SIM_TRY(require_context(&context));
  if (address == nullptr || bytes == 0 || (flags & ~kRegisterFlags) != 0) {
    return CUDA_ERROR_INVALID_VALUE;
  }
  const auto base = reinterpret_cast<CUdeviceptr>(address);
  if (is_device_address(base)) return CUDA_ERROR_INVALID_VALUE;
  Allocation allocation;
  allocation.base = base;
  allocation.bytes = bytes;
  allocation.kind = MemoryKind::kRegistered;
  allocation.device = context->device;
  allocation.context = context;
  allocation.flags = flags | CU_MEMHOSTREGISTER_DEVICEMAP;
  return register_allocation(allocation) ? CUDA_SUCCESS : CUDA_ERROR_HOST_MEMORY_ALREADY_REGISTERED;
}

bool find_host(const void* address, Allocation* out) {
  return find_allocation(reinterpret_cast<CUdeviceptr>(address), out) &&
         (out->kind == MemoryKind::kHost || out->kind == MemoryKind::kRegistered);
}

// Of either kind, by its beginning; spends what the call's cost says for so many bytes.
CUresult release(void* address, MemoryKind kind, const char* name) {
  Context* context = nullptr;
  VRAM_SIM_TRY(require_context(&context));
  if (address == nullptr) return CUDA_ERROR_INVALID_VALUE;
  VRAM_SIM_TRY(synchronise_context(*context));
  Allocation allocation;
  const bool known = find_host(address, &allocation);
  VRAM_SIM_TRY(free_kind(reinterpret_cast<CUdeviceptr>(address), kind));
  if (known) spend_bytes(name, allocation.bytes);
  return CUDA_SUCCESS;
}

CUresult device_pointer(CUdeviceptr* out, void* address, unsigned flags) {
  Context* context = nullptr;
  VRAM_SIM_TRY(require_context(&context));
  Allocation allocation;
  if (out == nullptr || flags != 0 || !find_host(address, &allocation)) {
    return CUDA_ERROR_INVALID_VALUE;
  }
  *out = reinterpret_cast<CUdeviceptr>(address);
  return CUDA_SUCCESS;
}

}  // namespace

CUresult cuMemHostAlloc(void** out, size_t bytes, unsigned int flags) {
  VRAM_SIM_ENTER();
  const CUresult result = allocate(out, bytes, flags);
  if (result == CUDA_SUCCESS) spend_bytes("cuMemHostAlloc", bytes);
  return result;
}

CUresult cuMemAllocHost_v2(void** out, size_t bytes) {
  VRAM_SIM_ENTER();
  return allocate(out, bytes, 0);
}

CUresult cuMemAllocHost(void** out, unsigned int bytes) {
  VRAM_SIM_ENTER();
  return allocate(out, bytes, 0);
}

CUresult cuMemFreeHost(void* address) {
  VRAM_SIM_ENTER();
  return release(address, MemoryKind::kHost, "cuMemFreeHost");
}

CUresult cuMemHostRegister_v2(void* address, size_t bytes, unsigned int flags) {
  VRAM_SIM_ENTER();
  const CUresult result = register_range(address, bytes, flags);
  if (result == CUDA_SUCCESS) spend_bytes("cuMemHostRegister_v2", bytes);
  return result;
}

CUresult cuMemHostRegister(void* address, size_t bytes, unsigned int flags) {
  VRAM_SIM_ENTER();
  return register_range(address, bytes, flags);
}

CUresult cuMemHostUnregister(void* address) {
  VRAM_SIM_ENTER();
  Allocation allocation;
  const bool registered =
      find_host(address, &allocation) && allocation.kind == MemoryKind::kRegistered;
  const CUresult result = release(address, MemoryKind::kRegistered, "cuMemHostUnregister");
  return result == CUDA_ERROR_INVALID_VALUE && !registered ? CUDA_ERROR_HOST_MEMORY_NOT_REGISTERED
                                                           : result;
}

CUresult cuMemHostGetDevicePointer_v2(CUdeviceptr* out, void* address, unsigned int flags) {
  VRAM_SIM_ENTER();
  return device_pointer(out, address, flags);
}

CUresult cuMemHostGetDevicePointer(CUdeviceptr_v1* out, void* address, unsigned int flags) {
  VRAM_SIM_ENTER();
  CUdeviceptr wide = 0;
  const CUresult result = device_pointer(out == nullptr ? nullptr : &wide, address, flags);
  if (result != CUDA_SUCCESS) return result;
  if (wide > UINT32_MAX) return CUDA_ERROR_INVALID_VALUE;
  *out = static_cast<CUdeviceptr_v1>(wide);
  return CUDA_SUCCESS;
}

CUresult cuMemHostGetFlags(unsigned int* flags, void* address) {
  VRAM_SIM_ENTER();
  Context* context = nullptr;
  VRAM_SIM_TRY(require_context(&context));
  Allocation allocation;
  if (flags == nullptr || !find_host(address, &allocation)) return CUDA_ERROR_INVALID_VALUE;
  *flags = allocation.flags;
  return CUDA_SUCCESS;
}
