// Entry points: pools in other processes.
#include <cuda.h>

#include "sim/context.h"
#include "sim/entry.h"
#include "sim/pool_share.h"
#include "sim/try.h"

using namespace vram::sim;

CUresult cuMemPoolExportToShareableHandle(void* shareable, CUmemoryPool pool,
                                          CUmemAllocationHandleType type,
                                          unsigned long long flags) {
  VRAM_SIM_ENTER();
  VRAM_SIM_TRY(require_initialized());
  if (shareable == nullptr || flags != 0) return CUDA_ERROR_INVALID_VALUE;
  if (type != CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR) return CUDA_ERROR_NOT_SUPPORTED;
  return export_pool(pool, static_cast<int*>(shareable));
}

CUresult cuMemPoolImportFromShareableHandle(CUmemoryPool* pool, void* os_handle,
                                            CUmemAllocationHandleType type,
                                            unsigned long long flags) {
  VRAM_SIM_ENTER();
  VRAM_SIM_TRY(require_initialized());
  if (pool == nullptr || flags != 0) return CUDA_ERROR_INVALID_VALUE;
  if (type != CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR) return CUDA_ERROR_NOT_SUPPORTED;
  return import_pool(static_cast<int>(reinterpret_cast<intptr_t>(os_handle)), pool);
}

CUresult cuMemPoolExportPointer(CUmemPoolPtrExportData* data, CUdeviceptr address) {
  VRAM_SIM_ENTER();
  VRAM_SIM_TRY(require_initialized());
  if (data == nullptr) return CUDA_ERROR_INVALID_VALUE;
  return export_block(address, data);
}

CUresult cuMemPoolImportPointer(CUdeviceptr* out, CUmemoryPool pool, CUmemPoolPtrExportData* data) {
  VRAM_SIM_ENTER();
  Context* context = nullptr;
  VRAM_SIM_TRY(require_context(&context));
  if (out == nullptr || data == nullptr) return CUDA_ERROR_INVALID_VALUE;
  return import_block(pool, *data, out);
}
