// Memory of others. What another process of CUDA exported is counted there, once, and only shown
// here; what another interface (Vulkan, a DMA buffer) exported is counted by nobody else, so it is
// charged to whoever imports it.

#include "interpose/block.h"
#include "interpose/charged.h"
#include "interpose/export.h"
#include "interpose/measure.h"

namespace vram::interpose {
namespace {

using driver::real;

constexpr std::uint64_t kPiece = 2 * kMiB;

void note_opened(CUdeviceptr address) {
  Here here{};
  CUdeviceptr base = 0;
  std::size_t bytes = 0;
  if (!locate(&here) || real.cuMemGetAddressRange_v2(&base, &bytes, address) != CUDA_SUCCESS) {
    return;
  }
  const Block block{round_up(bytes, wire::kGranule), here.ordinal, here.context, Kind::kExternal};
  if (!process().imports.insert(address, pack(block))) return;
  here.device->account.add_part(wire::Part::kImported, static_cast<std::int64_t>(block.bytes));
}

CUresult shared(CUresult result) {
  if (result == CUDA_SUCCESS && joined()) note_sharing();
  return result;
}

CUresult open_shared(CUdeviceptr* address, CUresult result) {
  if (result == CUDA_SUCCESS && address != nullptr) note_opened(*address);
  return shared(result);
}

}  // namespace
}  // namespace vram::interpose

using namespace vram::interpose;
using vram::driver::real;
using vram::wire::Part;

VRAM_EXPORT CUresult cuIpcGetMemHandle(CUipcMemHandle* handle, CUdeviceptr address) {
  VRAM_ENTER(cuIpcGetMemHandle, handle, address);
  return shared(real.cuIpcGetMemHandle(handle, address));
}

VRAM_EXPORT CUresult cuMemExportToShareableHandle(void* shareable,
                                                  CUmemGenericAllocationHandle handle,
                                                  CUmemAllocationHandleType type,
                                                  unsigned long long flags) {
  VRAM_ENTER(cuMemExportToShareableHandle, shareable, handle, type, flags);
  return shared(real.cuMemExportToShareableHandle(shareable, handle, type, flags));
}

VRAM_EXPORT CUresult cuMemImportFromShareableHandle(CUmemGenericAllocationHandle* handle,
                                                    void* shareable,
                                                    CUmemAllocationHandleType type) {
  VRAM_ENTER(cuMemImportFromShareableHandle, handle, shareable, type);
  return shared(real.cuMemImportFromShareableHandle(handle, shareable, type));
}

VRAM_EXPORT CUresult cuMemGetHandleForAddressRange(void* handle, CUdeviceptr address, size_t size,
                                                   CUmemRangeHandleType type,
                                                   unsigned long long flags) {
  VRAM_ENTER(cuMemGetHandleForAddressRange, handle, address, size, type, flags);
  return shared(real.cuMemGetHandleForAddressRange(handle, address, size, type, flags));
}

VRAM_EXPORT CUresult cuIpcOpenMemHandle(CUdeviceptr* address, CUipcMemHandle handle,
                                        unsigned flags) {
  VRAM_ENTER(cuIpcOpenMemHandle, address, handle, flags);
  return open_shared(address, real.cuIpcOpenMemHandle(address, handle, flags));
}

VRAM_EXPORT CUresult cuIpcOpenMemHandle_v2(CUdeviceptr* address, CUipcMemHandle handle,
                                           unsigned flags) {
  VRAM_ENTER(cuIpcOpenMemHandle_v2, address, handle, flags);
  return open_shared(address, real.cuIpcOpenMemHandle_v2(address, handle, flags));
}

VRAM_EXPORT CUresult cuIpcCloseMemHandle(CUdeviceptr address) {
  VRAM_ENTER(cuIpcCloseMemHandle, address);
  std::uint64_t value = 0;
  const bool known = process().imports.take(address, &value);
  const CUresult result = real.cuIpcCloseMemHandle(address);
  if (!known) return result;
  const Block block = unpack_block(value);
  if (result != CUDA_SUCCESS) {
    (void)process().imports.insert(address, value);
    return result;
  }
  process().device[block.device].account.add_part(Part::kImported,
                                                  -static_cast<std::int64_t>(block.bytes));
  measure_shared();
  return result;
}

VRAM_EXPORT CUresult cuImportExternalMemory(CUexternalMemory* memory,
                                            const CUDA_EXTERNAL_MEMORY_HANDLE_DESC* handle) {
  VRAM_ENTER(cuImportExternalMemory, memory, handle);
  Here here{};
  if (memory == nullptr || handle == nullptr || !locate(&here)) {
    return real.cuImportExternalMemory(memory, handle);
  }
  const std::uint64_t bytes = round_up(handle->size, kPiece);
  const Block block{bytes, here.ordinal, here.context, Kind::kExternal};
  return take_charged(
      here.device->account, bytes, Part::kImported,
      [&] { return real.cuImportExternalMemory(memory, handle); },
      [&] {
        if (process().imports.insert(reinterpret_cast<std::uint64_t>(*memory), pack(block))) {
          return true;
        }
        real.cuDestroyExternalMemory(*memory);
        return false;
      });
}

VRAM_EXPORT CUresult cuDestroyExternalMemory(CUexternalMemory memory) {
  VRAM_ENTER(cuDestroyExternalMemory, memory);
  const auto key = reinterpret_cast<std::uint64_t>(memory);
  std::uint64_t value = 0;
  const bool known = process().imports.take(key, &value);
  const CUresult result = real.cuDestroyExternalMemory(memory);
  if (!known) return result;
  if (result != CUDA_SUCCESS) {
    (void)process().imports.insert(key, value);
    return result;
  }
  const Block block = unpack_block(value);
  const auto& account = process().device[block.device].account;
  account.uncharge(block.bytes);
  account.add_part(Part::kImported, -static_cast<std::int64_t>(block.bytes));
  return result;
}
