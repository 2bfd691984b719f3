// A library that is linked with the driver, as CUDA's math libraries are.
#include <cuda.h>
#include <dlfcn.h>

extern "C" void* symbol_of_driver(const char* name) {
  const struct {
    const char* name;
    void* function;
  } known[] = {
      {"cuInit", reinterpret_cast<void*>(&cuInit)},
      {"cuDevicePrimaryCtxRetain", reinterpret_cast<void*>(&cuDevicePrimaryCtxRetain)},
      {"cuCtxSetCurrent", reinterpret_cast<void*>(&cuCtxSetCurrent)},
      {"cuMemAlloc_v2", reinterpret_cast<void*>(&cuMemAlloc)},
      {"cuMemFree_v2", reinterpret_cast<void*>(&cuMemFree)},
      {"cuGetProcAddress_v2", reinterpret_cast<void*>(&cuGetProcAddress)},
  };
  for (const auto& entry : known) {
    for (const char *a = entry.name, *b = name; *a == *b; ++a, ++b) {
      if (*a == '\0') return entry.function;
    }
  }
  return nullptr;
}
