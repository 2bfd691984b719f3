#include "sim/pool_share.h"

#include <fcntl.h>
#include <unistd.h>

#include <cstring>
#include <map>
#include <memory>
#include <mutex>
#include <unordered_map>

#include "sim/address_space.h"
#include "sim/driver.h"
#include "sim/file_range.h"
#include "sim/identity.h"
#include "sim/pool_life.h"
#include "sim/registry.h"
#include "sim/try.h"

namespace vram::sim {
namespace {

constexpr uint64_t kDataMagic = 0x316c6f70'6d617276;  // "vrampol1"

struct Data {
  uint64_t magic;
  uint64_t offset;  // in the exporter's file
  uint64_t bytes;
  int32_t card;
  int32_t unused[9];
};
static_assert(sizeof(Data) == sizeof(CUmemPoolPtrExportData));

struct ImportedPool {
  int file = -1;
};

struct Imported {
  std::mutex mutex;
  std::unordered_map<CUmemoryPool, std::unique_ptr<ImportedPool>> pools;
  std::map<CUdeviceptr, FileRange> blocks;
};

Imported& imported() {
  static Imported* const instance = new Imported;
  return *instance;
}

int device_of_card(int card) {
  for (int device = 0; device < device_count(); ++device) {
    if (card_of(device) == card) return device;
  }
  return -1;
}

}  // namespace

CUresult export_pool(CUmemoryPool handle, int* descriptor) {
  Pool* pool = nullptr;
  VRAM_SIM_TRY(find_pool(handle, &pool));
  if (pool->handle_types() != CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR) {
    return CUDA_ERROR_INVALID_VALUE;
  }
  const int copy = ::fcntl(AddressSpace::get()->file(), F_DUPFD_CLOEXEC, 0);
  if (copy < 0) return CUDA_ERROR_OPERATING_SYSTEM;
  *descriptor = copy;
  return CUDA_SUCCESS;
}

CUresult import_pool(int descriptor, CUmemoryPool* out) {
  auto pool = std::make_unique<ImportedPool>();
  pool->file = ::fcntl(descriptor, F_DUPFD_CLOEXEC, 0);
  if (pool->file < 0) return CUDA_ERROR_INVALID_VALUE;
  const std::lock_guard held(imported().mutex);
  *out = reinterpret_cast<CUmemoryPool>(pool.get());
  imported().pools[*out] = std::move(pool);
  return CUDA_SUCCESS;
}

CUresult forget_imported_pool(CUmemoryPool handle) {
  const std::lock_guard held(imported().mutex);
  const auto found = imported().pools.find(handle);
  if (found == imported().pools.end()) return CUDA_ERROR_INVALID_VALUE;
  ::close(found->second->file);
  imported().pools.erase(found);
  return CUDA_SUCCESS;
}

CUresult export_block(CUdeviceptr address, CUmemPoolPtrExportData* out) {
  Allocation allocation;
  if (!find_allocation(address, &allocation) || allocation.kind != MemoryKind::kPool ||
      allocation.base != address) {
    return CUDA_ERROR_INVALID_VALUE;
  }
  const Pool* const pool = pool_of(address);
  if (pool == nullptr || pool->handle_types() != CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR) {
    return CUDA_ERROR_INVALID_VALUE;
  }
  Data data = {};
  data.magic = kDataMagic;
  data.offset = AddressSpace::get()->file_offset(address);
  data.bytes = allocation.bytes;
  data.card = card_of(pool->device());
  std::memcpy(out, &data, sizeof(data));
  return CUDA_SUCCESS;
}

CUresult import_block(CUmemoryPool handle, const CUmemPoolPtrExportData& opaque, CUdeviceptr* out) {
  Data data;
  std::memcpy(&data, &opaque, sizeof(data));
  if (data.magic != kDataMagic) return CUDA_ERROR_INVALID_VALUE;
  const int device = device_of_card(data.card);
  if (device < 0) return CUDA_ERROR_INVALID_DEVICE;
  const std::lock_guard held(imported().mutex);
  const auto pool = imported().pools.find(handle);
  if (pool == imported().pools.end() || AddressSpace::get() == nullptr) {
    return CUDA_ERROR_INVALID_VALUE;
  }
  Allocation allocation;
  allocation.bytes = data.bytes;
  allocation.kind = MemoryKind::kImported;
  allocation.device = device;
  FileRange block;
  VRAM_SIM_TRY(map_file_range(pool->second->file, data.offset, &allocation, &block));
  imported().blocks[allocation.base] = block;
  *out = allocation.base;
  return CUDA_SUCCESS;
}

CUresult free_imported_block(CUdeviceptr base) {
  const std::lock_guard held(imported().mutex);
  const auto found = imported().blocks.find(base);
  if (found == imported().blocks.end()) return CUDA_ERROR_INVALID_VALUE;
  Allocation allocation;
  (void)take_allocation(base, MemoryKind::kImported, &allocation);
  unmap_file_range(found->second);
  imported().blocks.erase(found);
  return CUDA_SUCCESS;
}

}  // namespace vram::sim
