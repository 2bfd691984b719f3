// Entry points: handles of memory for other processes.
#include <cuda.h>

#include "sim/context.h"
#include "sim/entry.h"
#include "sim/ipc_memory.h"
#include "sim/try.h"

using namespace vram::sim;

namespace {

CUresult open_handle(CUdeviceptr* out, const CUipcMemHandle& handle, unsigned flags) {
  Context* context = nullptr;
  VRAM_SIM_TRY(require_context(&context));
  if (out == nullptr || (flags & ~unsigned{CU_IPC_MEM_LAZY_ENABLE_PEER_ACCESS}) != 0) {
    return CUDA_ERROR_INVALID_VALUE;
  }
  return open_block(*context, handle, out);
}

}  // namespace

CUresult cuIpcGetMemHandle(CUipcMemHandle* handle, CUdeviceptr address) {
  VRAM_SIM_ENTER();
  Context* context = nullptr;
  VRAM_SIM_TRY(require_context(&context));
  if (handle == nullptr) return CUDA_ERROR_INVALID_VALUE;
  return export_block(address, handle);
}

CUresult cuIpcOpenMemHandle(CUdeviceptr* out, CUipcMemHandle handle, unsigned int flags) {
  VRAM_SIM_ENTER();
  return open_handle(out, handle, flags);
}

CUresult cuIpcOpenMemHandle_v2(CUdeviceptr* out, CUipcMemHandle handle, unsigned int flags) {
  VRAM_SIM_ENTER();
  return open_handle(out, handle, flags);
}

CUresult cuIpcCloseMemHandle(CUdeviceptr address) {
  VRAM_SIM_ENTER();
  Context* context = nullptr;
  VRAM_SIM_TRY(require_context(&context));
  return close_import(address);
}
