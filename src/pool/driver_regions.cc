#include "pool/driver_regions.h"

#include <algorithm>

#include "pool/current.h"

namespace vram::pool {

CUresult DriverRegions::take(std::uint64_t* address, std::uint64_t bytes) {
  CUdeviceptr device = 0;
  void* host = nullptr;
  CUresult result = CUDA_SUCCESS;
  switch (memory_) {
    case Memory::kDevice:
      result = driver_.mem_alloc(&device, bytes);
      break;
    case Memory::kManaged:
      result = driver_.mem_alloc_managed(&device, bytes, CU_MEM_ATTACH_GLOBAL);
      break;
    case Memory::kHost:
      // Pinned for every context of the process, as frameworks expect of a host pool.
      result = driver_.host_alloc(&host, bytes, CU_MEMHOSTALLOC_PORTABLE);
      device = reinterpret_cast<CUdeviceptr>(host);
      break;
  }
  if (result == CUDA_SUCCESS) *address = device;
  return result;
}

std::optional<arena::Range> DriverRegions::allocate(std::uint64_t /*alignment*/,
                                                    std::uint64_t bytes) {
  const Current current(driver_, context_);
  std::uint64_t address = 0;
  answer_ = take(&address, bytes);
  if (answer_ != CUDA_SUCCESS) return std::nullopt;
  bytes_ += bytes;
  peak_ = std::max(peak_, bytes_);
  return arena::Range{address, bytes};
}

void DriverRegions::free(arena::Range range) {
  const Current current(driver_, context_);
  if (memory_ == Memory::kHost) {
    // Freeing device memory waits for the card; of host memory the driver does not promise it.
    (void)driver_.context_synchronize();
    (void)driver_.host_free(reinterpret_cast<void*>(range.address));
  } else {
    (void)driver_.mem_free(range.address);
  }
  bytes_ -= range.bytes;
  returned_ += range.bytes;
}

}  // namespace vram::pool
