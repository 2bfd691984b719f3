// CuPy's view of the frameworks' pools: cupy.cuda.CFunctionAllocator calls these functions.

#include "vram/frameworks.h"

extern "C" {

void* vram_cupy_malloc(void* stream, size_t size, int device) {
  vram_pool* pool = nullptr;
  void* address = nullptr;
  if (vram_framework_pool(device, &pool) != VRAM_OK) return nullptr;
  return vram_pool_allocate(pool, size, stream, &address) == VRAM_OK ? address : nullptr;
}

void vram_cupy_free(void* stream, void* address, int device) {
  vram_pool* pool = nullptr;
  if (vram_framework_pool(device, &pool) == VRAM_OK) (void)vram_pool_free(pool, address, stream);
}
}
