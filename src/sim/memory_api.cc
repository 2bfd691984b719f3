// Entry points: cuMemAlloc and what belongs to it, memory figures, address ranges.
#include <cuda.h>

#include "sim/context.h"
#include "sim/costs.h"
#include "sim/driver.h"
#include "sim/entry.h"
#include "sim/external_memory.h"
#include "sim/host_memory.h"
#include "sim/memory.h"
#include "sim/pool.h"
#include "sim/registry.h"
#include "sim/stream.h"
#include "sim/try.h"

using namespace vram::sim;

namespace {

// Rows of a pitched allocation begin at such multiples.
constexpr size_t kPitchAlignment = 512;

// What every call that takes or gives memory at once begins with.
CUresult begin(Context** context) {
  VRAM_SIM_TRY(require_context(context));
  if (in_host_function()) return CUDA_ERROR_NOT_PERMITTED;
  return check_capture_allows_unsafe_call();
}

CUresult allocate(CUdeviceptr* out, size_t bytes) {
  Context* context = nullptr;
  VRAM_SIM_TRY(begin(&context));
  if (out == nullptr) return CUDA_ERROR_INVALID_VALUE;
  return device_allocate(*context, bytes, out);
}

CUresult allocate_pitch(CUdeviceptr* out, size_t* pitch, size_t width, size_t height,
                        unsigned element_bytes) {
  Context* context = nullptr;
  VRAM_SIM_TRY(begin(&context));
  const bool element_ok = element_bytes == 4 || element_bytes == 8 || element_bytes == 16;
  if (out == nullptr || pitch == nullptr || width == 0 || height == 0 || !element_ok) {
    return CUDA_ERROR_INVALID_VALUE;
  }
  if (width > SIZE_MAX - kPitchAlignment) return CUDA_ERROR_OUT_OF_MEMORY;
  const size_t row = round_up(width, kPitchAlignment);
  if (height > SIZE_MAX / row) return CUDA_ERROR_OUT_OF_MEMORY;
  const CUresult result = device_allocate(*context, row * height, out);
  if (result == CUDA_SUCCESS) *pitch = row;
  return result;
}

// A free waits for the work of the context, as the real one does. `*bytes` is what was freed.
CUresult release(CUdeviceptr base, size_t* bytes) {
  if (base == 0) return require_initialized();
  Context* context = nullptr;
  VRAM_SIM_TRY(begin(&context));
  Allocation allocation;
  if (!find_allocation(base, &allocation) || allocation.base != base) {
    return CUDA_ERROR_INVALID_VALUE;
  }
  Context& owner = allocation.context == nullptr ? *context : *allocation.context;
  VRAM_SIM_TRY(synchronise_context(owner));
  *bytes = allocation.bytes;
  switch (allocation.kind) {
    case MemoryKind::kDevice:
      return device_free(base);
    case MemoryKind::kManaged:
      return free_kind(base, MemoryKind::kManaged);
    case MemoryKind::kPool:
    case MemoryKind::kImported:
      return pool_free(base, 0, 0);
    case MemoryKind::kGraph:
      return graph_memory_uncommit(base);
    case MemoryKind::kExternal:
      return free_external_buffer(base);
    default:
      return CUDA_ERROR_INVALID_VALUE;
  }
}

CUresult address_range(CUdeviceptr* base, size_t* bytes, CUdeviceptr address) {
  Context* context = nullptr;
  VRAM_SIM_TRY(require_context(&context));
  Allocation allocation;
  if (!find_allocation(address, &allocation)) return CUDA_ERROR_NOT_FOUND;
  if (base != nullptr) *base = allocation.base;
  if (bytes != nullptr) *bytes = allocation.bytes;
  return CUDA_SUCCESS;
}

CUresult memory_info(size_t* free_bytes, size_t* total_bytes) {
  Context* context = nullptr;
  VRAM_SIM_TRY(require_context(&context));
  if (free_bytes == nullptr || total_bytes == nullptr) return CUDA_ERROR_INVALID_VALUE;
  Machine& machine = *driver().machine;
  const int card = card_of(context->device);
  *total_bytes = machine.card_bytes(card);
  const size_t used = machine.used_bytes(card);
  *free_bytes = used < *total_bytes ? *total_bytes - used : 0;
  return CUDA_SUCCESS;
}

unsigned narrow(size_t bytes) {
  return bytes > UINT32_MAX ? UINT32_MAX : static_cast<unsigned>(bytes);
}

// The interface of before CUDA 3.2 has no room for the addresses this driver gives.
constexpr CUdeviceptr kNarrowLimit = UINT32_MAX;

}  // namespace

CUresult cuMemAlloc_v2(CUdeviceptr* out, size_t bytes) {
  VRAM_SIM_ENTER();
  const CUresult result = allocate(out, bytes);
  if (result == CUDA_SUCCESS) spend_bytes("cuMemAlloc_v2", bytes);
  return result;
}

CUresult cuMemAlloc(CUdeviceptr_v1* out, unsigned int bytes) {
  VRAM_SIM_ENTER();
  CUdeviceptr base = 0;
  VRAM_SIM_TRY(allocate(out == nullptr ? nullptr : &base, bytes));
  if (base > kNarrowLimit) {
    (void)device_free(base);
    return CUDA_ERROR_OUT_OF_MEMORY;
  }
  *out = static_cast<CUdeviceptr_v1>(base);
  return CUDA_SUCCESS;
}

CUresult cuMemAllocPitch_v2(CUdeviceptr* out, size_t* pitch, size_t width, size_t height,
                            unsigned int element_bytes) {
  VRAM_SIM_ENTER();
  return allocate_pitch(out, pitch, width, height, element_bytes);
}

CUresult cuMemAllocPitch(CUdeviceptr_v1* out, unsigned int* pitch, unsigned int width,
                         unsigned int height, unsigned int element_bytes) {
  VRAM_SIM_ENTER();
  if (out == nullptr || pitch == nullptr) return CUDA_ERROR_INVALID_VALUE;
  CUdeviceptr base = 0;
  size_t row = 0;
  VRAM_SIM_TRY(allocate_pitch(&base, &row, width, height, element_bytes));
  if (base > kNarrowLimit) {
    (void)device_free(base);
    return CUDA_ERROR_OUT_OF_MEMORY;
  }
  *out = static_cast<CUdeviceptr_v1>(base);
  *pitch = narrow(row);
  return CUDA_SUCCESS;
}

CUresult cuMemFree_v2(CUdeviceptr base) {
  VRAM_SIM_ENTER();
  size_t bytes = 0;
  const CUresult result = release(base, &bytes);
  if (result == CUDA_SUCCESS) spend_bytes("cuMemFree_v2", bytes);
  return result;
}

CUresult cuMemFree(CUdeviceptr_v1 base) {
  VRAM_SIM_ENTER();
  size_t bytes = 0;
  return release(base, &bytes);
}

CUresult cuMemGetAddressRange_v2(CUdeviceptr* base, size_t* bytes, CUdeviceptr address) {
  VRAM_SIM_ENTER();
  return address_range(base, bytes, address);
}

CUresult cuMemGetAddressRange(CUdeviceptr_v1* base, unsigned int* bytes, CUdeviceptr_v1 address) {
  VRAM_SIM_ENTER();
  CUdeviceptr wide_base = 0;
  size_t wide_bytes = 0;
  const CUresult result = address_range(&wide_base, &wide_bytes, address);
  if (result != CUDA_SUCCESS) return result;
  if (base != nullptr) *base = static_cast<CUdeviceptr_v1>(wide_base);
  if (bytes != nullptr) *bytes = narrow(wide_bytes);
  return CUDA_SUCCESS;
}

CUresult cuMemGetInfo_v2(size_t* free_bytes, size_t* total_bytes) {
  VRAM_SIM_ENTER();
  return memory_info(free_bytes, total_bytes);
}

CUresult cuMemGetInfo(unsigned int* free_bytes, unsigned int* total_bytes) {
  VRAM_SIM_ENTER();
  if (free_bytes == nullptr || total_bytes == nullptr) return CUDA_ERROR_INVALID_VALUE;
  size_t wide_free = 0;
  size_t wide_total = 0;
  const CUresult result = memory_info(&wide_free, &wide_total);
  if (result != CUDA_SUCCESS) return result;
  *free_bytes = narrow(wide_free);
  *total_bytes = narrow(wide_total);
  return CUDA_SUCCESS;
}

CUresult cuMemAllocManaged(CUdeviceptr* out, size_t bytes, unsigned int flags) {
  VRAM_SIM_ENTER();
  Context* context = nullptr;
  VRAM_SIM_TRY(begin(&context));
  const bool flags_ok = flags == CU_MEM_ATTACH_GLOBAL || flags == CU_MEM_ATTACH_HOST;
  if (out == nullptr || !flags_ok) return CUDA_ERROR_INVALID_VALUE;
  return allocate_managed(*context, bytes, flags, out);
}
