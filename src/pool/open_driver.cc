// The process's own driver, for programs that use vram as a library.

#include <dlfcn.h>

#include "pool/memory_pool.h"

namespace vram::pool {
namespace {

void* library = nullptr;

base::Expected<DriverCalls, Failure> load() {
  // Never closed: the driver does not survive that.
  library = dlopen("libcuda.so.1", RTLD_NOW | RTLD_LOCAL);
  if (library == nullptr) {
    return Failure{CUDA_ERROR_NO_DEVICE,
                   "vram: no CUDA driver: libcuda.so.1 was not found; install NVIDIA's driver, or "
                   "run under `vram run --sim 1x24GiB`"};
  }
  DriverCalls calls{};
#define VRAM_POOL_LOAD(slot, symbol) \
  calls.slot = reinterpret_cast<decltype(calls.slot)>(dlsym(library, #symbol));
  VRAM_POOL_DRIVER_CALLS(VRAM_POOL_LOAD)
#undef VRAM_POOL_LOAD
  if (calls.init == nullptr || calls.map == nullptr || calls.async_alloc == nullptr) {
    return Failure{CUDA_ERROR_NOT_SUPPORTED,
                   "vram: the CUDA driver is too old: it needs to be of CUDA 11.2 or newer"};
  }
  if (const CUresult started = calls.init(0); started != CUDA_SUCCESS) {
    return Failure{started, "vram: the CUDA driver does not start (error " +
                                std::to_string(static_cast<int>(started)) +
                                "); `nvidia-smi` says why"};
  }
  return calls;
}

}  // namespace

base::Expected<const DriverCalls*, Failure> open_driver() {
  static const base::Expected<DriverCalls, Failure> driver = load();
  if (!driver) return driver.error();
  return &*driver;
}

void* driver_symbol(const char* name) {
  return library == nullptr ? nullptr : dlsym(library, name);
}

}  // namespace vram::pool
