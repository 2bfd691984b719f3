// Memory of others. What another process of CUDA exported is counted there, once, and only shown
// here; what another interface (Vulkan) exported is counted by nobody else, so it is charged to
// whoever imports it.
//
// Blocks of our own pools are not given to others: their pages are other blocks' later.
//
// Where that interface is the process's own, the memory is in the process's row on the card, and
// was measured and charged as what no call names. Then the import is paid with that.

#include <fcntl.h>
#include <unistd.h>

#include "interpose/block.h"
#include "interpose/export.h"
#include "interpose/job.h"
#include "interpose/measure.h"
#include "interpose/own_pools.h"
#include "interpose/pins.h"
#include "interpose/trace.h"

namespace vram::interpose {
namespace {

using driver::real;
using ledger::Account;
using wire::Part;

constexpr std::uint64_t kPiece = 2 * kMiB;

void note_opened(CUdeviceptr address) {
  Here here{};
  CUdeviceptr base = 0;
  std::size_t bytes = 0;
  if (!locate(&here) || real.cuMemGetAddressRange_v2(&base, &bytes, address) != CUDA_SUCCESS) {
    return;
  }
  const Block block{round_up(bytes, wire::kGranule), here.ordinal, here.context, Kind::kOpened};
  if (!process().imports.insert(address, pack(block))) return;
  here.device->account.add_part(wire::Part::kImported, static_cast<std::int64_t>(block.bytes));
  if (is_traced()) note_taken({Way::kIpc, bytes}, address);
}

CUresult shared(CUresult result) {
  if (result == CUDA_SUCCESS && joined()) note_sharing();
  return result;
}

CUresult open_shared(CUdeviceptr* address, CUresult result) {
  if (result == CUDA_SUCCESS && address != nullptr) note_opened(*address);
  return shared(result);
}

void end_charge(const Block& block) {
  Device& device = process().device[block.device];
  const auto bytes = static_cast<std::int64_t>(block.bytes);
  device.account.add_part(Part::kImported, -bytes);
  if (block.kind != Kind::kExternal) return;
  device.external.fetch_sub(block.bytes, std::memory_order_relaxed);
  device.account.uncharge(block.bytes);
}

void begin_charge(Device& device, std::uint64_t bytes) {
  device.account.add_part(Part::kImported, static_cast<std::int64_t>(bytes));
  device.external.fetch_add(bytes, std::memory_order_relaxed);
}

// A successful import takes the descriptor over, and one that is undone must not have: so the
// driver gets a copy.
class Description {
 public:
  explicit Description(const CUDA_EXTERNAL_MEMORY_HANDLE_DESC& asked) : copy_(asked) {
    if (asked.type != CU_EXTERNAL_MEMORY_HANDLE_TYPE_OPAQUE_FD) return;
    asked_ = asked.handle.fd;
    const int copy = fcntl(asked_, F_DUPFD_CLOEXEC, 0);
    if (copy < 0) return;
    copy_.handle.fd = copy;
    copied_ = true;
  }
  const CUDA_EXTERNAL_MEMORY_HANDLE_DESC* get() const { return &copy_; }
  void keep() const {
    if (copied_) close(asked_);
  }
  void give_up() const {
    if (copied_) close(copy_.handle.fd);
  }

 private:
  CUDA_EXTERNAL_MEMORY_HANDLE_DESC copy_;
  int asked_ = -1;
  bool copied_ = false;
};

// More than the card has: the driver says what is wrong with the request.
CUresult impossible(const CUDA_EXTERNAL_MEMORY_HANDLE_DESC& asked) {
  const Description description(asked);
  CUexternalMemory memory = nullptr;
  const CUresult result = real.cuImportExternalMemory(&memory, description.get());
  if (result != CUDA_SUCCESS) {
    description.give_up();
    return result;
  }
  real.cuDestroyExternalMemory(memory);
  return CUDA_ERROR_OUT_OF_MEMORY;
}

CUresult import_external(const Here& here, CUexternalMemory* out,
                         const CUDA_EXTERNAL_MEMORY_HANDLE_DESC& asked) {
  Device& device = *here.device;
  const Account& account = device.account;
  const std::uint64_t bytes = round_up(asked.size, kPiece);
  if (device.capacity != 0 && bytes > device.capacity) return impossible(asked);
  (void)measure(device);
  const std::uint64_t paid =
      least(bytes, ledger::beside_bytes(*job(), account.device(), account.slot()));
  make_room(device, bytes - paid);
  if (!account.reserve(bytes - paid)) return CUDA_ERROR_OUT_OF_MEMORY;
  const Description description(asked);
  CUexternalMemory memory = nullptr;
  const CUresult result = real.cuImportExternalMemory(&memory, description.get());
  const Block block{bytes, here.ordinal, here.context, Kind::kExternal};
  const auto key = reinterpret_cast<std::uint64_t>(memory);
  const bool noted = result == CUDA_SUCCESS && process().imports.insert(key, pack(block));
  if (!noted) {
    if (result == CUDA_SUCCESS) real.cuDestroyExternalMemory(memory);
    if (result != CUDA_SUCCESS) description.give_up();
    account.roll_back(bytes - paid);
    return result == CUDA_SUCCESS ? CUDA_ERROR_OUT_OF_MEMORY : result;
  }
  begin_charge(device, bytes);
  account.commit(bytes - paid);
  account.charge(paid);
  // What it was paid with was something else.
  if (paid != 0 && measure(device) && over_limit(device)) {
    std::uint64_t value = 0;
    (void)process().imports.take(key, &value);
    real.cuDestroyExternalMemory(memory);
    end_charge(block);
    return CUDA_ERROR_OUT_OF_MEMORY;
  }
  description.keep();
  *out = memory;
  return CUDA_SUCCESS;
}

}  // namespace

void forget_imports(std::uint32_t device, std::uint32_t context) {
  Process& self = process();
  self.imports.for_each([&](std::uint64_t key, std::uint64_t value) {
    const Block block = unpack_block(value);
    if (block.device != device || block.context != context) return;
    if (self.imports.take(key, &value)) end_charge(block);
  });
}

}  // namespace vram::interpose

using namespace vram::interpose;
using vram::driver::real;

VRAM_EXPORT CUresult cuIpcGetMemHandle(CUipcMemHandle* handle, CUdeviceptr address) {
  VRAM_PASS(cuIpcGetMemHandle, handle, address);
  if (is_in_own_pool(address)) return CUDA_ERROR_NOT_SUPPORTED;
  return shared(real.cuIpcGetMemHandle(handle, address));
}

VRAM_EXPORT CUresult cuMemExportToShareableHandle(void* shareable,
                                                  CUmemGenericAllocationHandle handle,
                                                  CUmemAllocationHandleType type,
                                                  unsigned long long flags) {
  VRAM_ENTER(cuMemExportToShareableHandle, shareable, handle, type, flags);
  return pinning([&] {
    return shared(real.cuMemExportToShareableHandle(shareable, shared_handle(handle), type, flags));
  });
}

VRAM_EXPORT CUresult cuMemImportFromShareableHandle(CUmemGenericAllocationHandle* handle,
                                                    void* shareable,
                                                    CUmemAllocationHandleType type) {
  VRAM_PASS(cuMemImportFromShareableHandle, handle, shareable, type);
  const CUresult result = real.cuMemImportFromShareableHandle(handle, shareable, type);
  return shared(noted(result, {Way::kImport, 0}, handle));
}

VRAM_EXPORT CUresult cuMemGetHandleForAddressRange(void* handle, CUdeviceptr address, size_t size,
                                                   CUmemRangeHandleType type,
                                                   unsigned long long flags) {
  VRAM_ENTER(cuMemGetHandleForAddressRange, handle, address, size, type, flags);
  if (is_in_own_pool(address)) return CUDA_ERROR_NOT_SUPPORTED;
  return pinning([&] {
    share_addresses(address, size);
    return shared(real.cuMemGetHandleForAddressRange(handle, address, size, type, flags));
  });
}

VRAM_EXPORT CUresult cuIpcOpenMemHandle(CUdeviceptr* address, CUipcMemHandle handle,
                                        unsigned flags) {
  VRAM_PASS(cuIpcOpenMemHandle, address, handle, flags);
  return open_shared(address, real.cuIpcOpenMemHandle(address, handle, flags));
}

VRAM_EXPORT CUresult cuIpcOpenMemHandle_v2(CUdeviceptr* address, CUipcMemHandle handle,
                                           unsigned flags) {
  VRAM_PASS(cuIpcOpenMemHandle_v2, address, handle, flags);
  return open_shared(address, real.cuIpcOpenMemHandle_v2(address, handle, flags));
}

VRAM_EXPORT CUresult cuIpcCloseMemHandle(CUdeviceptr address) {
  VRAM_PASS_BACK(cuIpcCloseMemHandle, address);
  std::uint64_t value = 0;
  const bool known = process().imports.take(address, &value);
  const CUresult result = freed(KeySpace::kAddress, address, nullptr,
                                [&] { return real.cuIpcCloseMemHandle(address); });
  if (!known) return result;
  const Block block = unpack_block(value);
  if (result != CUDA_SUCCESS) {
    (void)process().imports.insert(address, value);
    return result;
  }
  end_charge(block);
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
  const Taking asked{Way::kExternal, handle->size};
  const auto attempt = [&] { return import_external(here, memory, *handle); };
  return noted(with_room_to_stay(*here.device, round_up(handle->size, kPiece), attempt), asked,
               memory);
}

VRAM_EXPORT CUresult cuDestroyExternalMemory(CUexternalMemory memory) {
  VRAM_PASS_BACK(cuDestroyExternalMemory, memory);
  const auto key = reinterpret_cast<std::uint64_t>(memory);
  std::uint64_t value = 0;
  const bool known = process().imports.take(key, &value);
  const CUresult result = freed(KeySpace::kExternal, key, nullptr,
                                [&] { return real.cuDestroyExternalMemory(memory); });
  if (!known) return result;
  if (result != CUDA_SUCCESS) {
    (void)process().imports.insert(key, value);
    return result;
  }
  const Block block = unpack_block(value);
  end_charge(block);
  (void)measure(process().device[block.device]);
  return result;
}
