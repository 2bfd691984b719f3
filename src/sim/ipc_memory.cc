#include "sim/ipc_memory.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cstring>
#include <map>
#include <mutex>
#include <string>

#include "sim/address_space.h"
#include "sim/device_memory.h"
#include "sim/driver.h"
#include "sim/file_range.h"
#include "sim/identity.h"
#include "sim/registry.h"
#include "sim/try.h"

namespace vram::sim {
namespace {

constexpr uint64_t kHandleMagic = 0x31637069'6d617276;  // "vramipc1"

struct Handle {
  uint64_t magic;
  uint64_t object;
  int32_t pid;   // of the exporter
  int32_t file;  // its descriptor of the pages
  uint64_t region_offset;
  uint64_t region_bytes;
  uint64_t block_offset;  // in the region
  uint64_t block_bytes;
  int32_t card;
  uint32_t unused;
};
static_assert(sizeof(Handle) == sizeof(CUipcMemHandle));

struct Import {
  CUdeviceptr base = 0;
  uint64_t bytes = 0;
  unsigned references = 0;
};

struct Imports {
  std::mutex mutex;
  std::map<uint64_t, Import> by_object;
};

Imports& imports() {
  static Imports* const instance = new Imports;
  return *instance;
}

int device_of_card(int card, int otherwise) {
  for (int device = 0; device < device_count(); ++device) {
    if (card_of(device) == card) return device;
  }
  return otherwise;
}

CUresult map_region(Context& context, const Handle& handle, Import* out) {
  const std::string path =
      "/proc/" + std::to_string(handle.pid) + "/fd/" + std::to_string(handle.file);
  const int file = ::open(path.c_str(), O_RDWR | O_CLOEXEC);
  if (file < 0) return CUDA_ERROR_INVALID_VALUE;
  Allocation allocation;
  allocation.bytes = handle.region_bytes;
  allocation.kind = MemoryKind::kImported;
  allocation.device = device_of_card(handle.card, context.device);
  allocation.context = &context;
  FileRange region;
  const CUresult mapped = map_file_range(file, handle.region_offset, &allocation, &region);
  ::close(file);
  VRAM_SIM_TRY(mapped);
  *out = {allocation.base, allocation.bytes, 0};
  return CUDA_SUCCESS;
}

// The caller holds the lock.
void end_import(uint64_t object, const Import& import) {
  AddressSpace* const space = AddressSpace::get();
  Machine& machine = *driver().machine;
  // Before the hold is dropped: afterwards the exporter may use the pages again.
  if (!machine.held_by_others(object)) {
    ::madvise(space->shadow(import.base), import.bytes, MADV_REMOVE);
  }
  Allocation allocation;
  (void)take_allocation(import.base, MemoryKind::kImported, &allocation);
  unmap_file_range({import.base, import.bytes});
  machine.drop(object);
}

}  // namespace

CUresult export_block(CUdeviceptr address, CUipcMemHandle* out) {
  Allocation allocation;
  if (!find_allocation(address, &allocation) || allocation.kind != MemoryKind::kDevice) {
    return CUDA_ERROR_INVALID_VALUE;
  }
  RegionView region;
  VRAM_SIM_TRY(share_region(address, &region));
  AddressSpace* const space = AddressSpace::get();
  Handle handle = {};
  handle.magic = kHandleMagic;
  handle.object = region.object;
  handle.pid = ::getpid();
  handle.file = space->file();
  handle.region_offset = space->file_offset(region.base);
  handle.region_bytes = region.bytes;
  handle.block_offset = allocation.base - region.base;
  handle.block_bytes = allocation.bytes;
  handle.card = card_of(region.device);
  std::memcpy(out, &handle, sizeof(handle));
  return CUDA_SUCCESS;
}

CUresult open_block(Context& context, const CUipcMemHandle& opaque, CUdeviceptr* out) {
  Handle handle;
  std::memcpy(&handle, &opaque, sizeof(handle));
  if (handle.magic != kHandleMagic) return CUDA_ERROR_INVALID_VALUE;
  if (handle.pid == ::getpid()) return CUDA_ERROR_INVALID_CONTEXT;
  const std::lock_guard held(imports().mutex);
  auto found = imports().by_object.find(handle.object);
  if (found == imports().by_object.end()) {
    Machine& machine = *driver().machine;
    switch (machine.hold(handle.object)) {
      case Machine::HoldStatus::kNoSuchObject:
        return CUDA_ERROR_INVALID_VALUE;
      case Machine::HoldStatus::kNoRoom:
        return CUDA_ERROR_OUT_OF_MEMORY;
      case Machine::HoldStatus::kOk:
        break;
    }
    Import import;
    if (const CUresult result = map_region(context, handle, &import); result != CUDA_SUCCESS) {
      machine.drop(handle.object);
      return result;
    }
    found = imports().by_object.emplace(handle.object, import).first;
  }
  ++found->second.references;
  *out = found->second.base + handle.block_offset;
  return CUDA_SUCCESS;
}

CUresult close_import(CUdeviceptr address) {
  const std::lock_guard held(imports().mutex);
  for (auto import = imports().by_object.begin(); import != imports().by_object.end(); ++import) {
    if (address - import->second.base >= import->second.bytes) continue;
    if (--import->second.references == 0) {
      end_import(import->first, import->second);
      imports().by_object.erase(import);
    }
    return CUDA_SUCCESS;
  }
  return CUDA_ERROR_INVALID_VALUE;
}

}  // namespace vram::sim
