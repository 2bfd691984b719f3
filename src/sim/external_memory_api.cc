// Entry points: memory of other interfaces.
#include <cuda.h>

#include "sim/context.h"
#include "sim/entry.h"
#include "sim/external_memory.h"
#include "sim/try.h"

using namespace vram::sim;

namespace {

CUresult check_type(CUexternalMemoryHandleType type) {
  if (type == CU_EXTERNAL_MEMORY_HANDLE_TYPE_OPAQUE_FD) return CUDA_SUCCESS;
  const bool known = type > CU_EXTERNAL_MEMORY_HANDLE_TYPE_OPAQUE_FD &&
                     type <= CU_EXTERNAL_MEMORY_HANDLE_TYPE_DMABUF_FD;
  return known ? CUDA_ERROR_NOT_SUPPORTED : CUDA_ERROR_INVALID_VALUE;
}

}  // namespace

CUresult cuImportExternalMemory(CUexternalMemory* out,
                                const CUDA_EXTERNAL_MEMORY_HANDLE_DESC* memory) {
  VRAM_SIM_ENTER();
  Context* context = nullptr;
  VRAM_SIM_TRY(require_context(&context));
  if (out == nullptr || memory == nullptr || memory->size == 0 ||
      (memory->flags & ~unsigned{CUDA_EXTERNAL_MEMORY_DEDICATED}) != 0) {
    return CUDA_ERROR_INVALID_VALUE;
  }
  VRAM_SIM_TRY(check_type(memory->type));
  return import_external(*context, memory->handle.fd, memory->size, out);
}

CUresult cuExternalMemoryGetMappedBuffer(CUdeviceptr* out, CUexternalMemory memory,
                                         const CUDA_EXTERNAL_MEMORY_BUFFER_DESC* buffer) {
  VRAM_SIM_ENTER();
  Context* context = nullptr;
  VRAM_SIM_TRY(require_context(&context));
  if (out == nullptr || buffer == nullptr || buffer->flags != 0) return CUDA_ERROR_INVALID_VALUE;
  return map_external(memory, buffer->offset, buffer->size, out);
}

CUresult cuDestroyExternalMemory(CUexternalMemory memory) {
  VRAM_SIM_ENTER();
  Context* context = nullptr;
  VRAM_SIM_TRY(require_context(&context));
  return destroy_external(memory);
}

extern "C" {

// For tests: what another interface of this process does. Takes memory on the card and gives a
// descriptor of the caller's own, as vkAllocateMemory and vkGetMemoryFdKHR do.
CUresult vram_sim_foreign_memory(CUdevice device, size_t bytes, uint64_t* memory, int* descriptor) {
  VRAM_SIM_TRY(require_device(device));
  return make_foreign(device, bytes, memory, descriptor);
}

// As vkFreeMemory: imports go on.
CUresult vram_sim_free_foreign_memory(uint64_t memory) {
  VRAM_SIM_TRY(require_initialized());
  return free_foreign(memory);
}

}  // extern "C"
