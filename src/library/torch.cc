// PyTorch's view of the frameworks' pools: torch.cuda.memory.CUDAPluggableAllocator finds these
// functions by name, and calls them with its own lock held or not.

#include <new>
#include <string>

#include "library/framework_pools.h"
#include "vram/frameworks.h"

namespace {

using vram::library::address_of;
using vram::library::stream_of;

class Refused final : public std::bad_alloc {
 public:
  explicit Refused(std::string why) : why_(std::move(why)) {}
  [[nodiscard]] const char* what() const noexcept override { return why_.c_str(); }

 private:
  std::string why_;
};

vram_status allocate(ssize_t size, int device, void* stream, void** address) {
  vram_pool* pool = nullptr;
  if (size < 0) {
    return vram::library::fail(VRAM_INVALID_ARGUMENT, "vram: a block cannot have a negative size");
  }
  const vram_status status = vram_framework_pool(device, &pool);
  if (status != VRAM_OK) return status;
  return vram_pool_allocate(pool, static_cast<uint64_t>(size), stream, address);
}

}  // namespace

extern "C" {

void* vram_torch_alloc(ssize_t size, int device, void* stream) {
  void* address = nullptr;
  if (allocate(size, device, stream, &address) != VRAM_OK) throw Refused(vram_last_error());
  return address;
}

void* vram_torch_pool_alloc(ssize_t size, int device, void* stream) {
  void* address = nullptr;
  return allocate(size, device, stream, &address) == VRAM_OK ? address : nullptr;
}

void vram_torch_free(void* address, ssize_t /*size*/, int device, void* stream) {
  vram_pool* pool = nullptr;
  if (vram_framework_pool(device, &pool) == VRAM_OK) (void)vram_pool_free(pool, address, stream);
}

void vram_torch_record_stream(void* address, void* stream) {
  (void)vram::library::guarded([&] {
    bool found = false;
    vram::library::for_each_framework_pool([&](vram::pool::MemoryPool& pool) {
      found = found || pool.record_use(address_of(address), stream_of(stream));
    });
    return VRAM_OK;
  });
}

void vram_torch_reset(void) {
  (void)vram::library::guarded([] {
    vram::library::for_each_framework_pool(
        [](vram::pool::MemoryPool& pool) { (void)pool.trim(0); });
    return VRAM_OK;
  });
}

void vram_torch_memory_fraction(double fraction, int device) {
  (void)vram::library::guarded([&] {
    vram::library::limit_framework_pool(device, fraction);
    return VRAM_OK;
  });
}
}
