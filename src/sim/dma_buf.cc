#include "sim/dma_buf.h"

#include <unistd.h>

#include <mutex>
#include <vector>

#include "sim/device_memory.h"
#include "sim/driver.h"
#include "sim/lifeline.h"
#include "sim/memory.h"
#include "sim/registry.h"
#include "sim/try.h"
#include "sim/virtual_memory.h"

namespace vram::sim {
namespace {

constexpr size_t kPage = 4096;

struct Keepers {
  std::mutex mutex;
  std::vector<int> open;
};

Keepers& keepers() {
  static Keepers* const instance = new Keepers;
  return *instance;
}

// The caller holds the lock. Holds end first: a keeper's number may be used again.
void close_unneeded() {
  driver().machine->end_closed_holds();
  std::erase_if(keepers().open, [](int keeper) {
    if (is_given_open(::getpid(), keeper)) return false;
    ::close(keeper);
    return true;
  });
}

CUresult objects_of_block(const Allocation& block, CUdeviceptr address, size_t bytes,
                          std::vector<uint64_t>* out) {
  if (bytes > round_up(block.bytes, kPage) - (address - block.base)) {
    return CUDA_ERROR_INVALID_VALUE;
  }
  RegionView region;
  VRAM_SIM_TRY(share_region(address, &region));
  out->push_back(region.object);
  return CUDA_SUCCESS;
}

CUresult objects_of(CUdeviceptr address, size_t bytes, std::vector<uint64_t>* out) {
  Allocation allocation;
  if (!find_allocation(address, &allocation)) return CUDA_ERROR_INVALID_VALUE;
  switch (allocation.kind) {
    case MemoryKind::kDevice:
      return objects_of_block(allocation, address, bytes, out);
    case MemoryKind::kVirtual:
      return share_range(address, bytes, out);
    case MemoryKind::kHost:
      return CUDA_ERROR_NOT_SUPPORTED;
    default:
      return CUDA_ERROR_INVALID_VALUE;
  }
}

}  // namespace

CUresult export_range(CUdeviceptr address, size_t bytes, int* descriptor) {
  std::vector<uint64_t> objects;
  VRAM_SIM_TRY(objects_of(address, bytes, &objects));
  const std::lock_guard held(keepers().mutex);
  close_unneeded();
  Lifeline line;
  if (!make_lifeline(bytes, &line)) return CUDA_ERROR_OPERATING_SYSTEM;
  keepers().open.push_back(line.keeper);
  for (const uint64_t object : objects) {
    if (driver().machine->hold_while_open(object, line.keeper)) continue;
    ::close(line.given);  // and with it what is held by now
    return CUDA_ERROR_OUT_OF_MEMORY;
  }
  *descriptor = line.given;
  return CUDA_SUCCESS;
}

}  // namespace vram::sim
