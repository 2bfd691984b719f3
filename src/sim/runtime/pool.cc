// Stream-ordered memory pools.
#include "sim/runtime/runtime.h"

using namespace vram::sim::runtime;

extern "C" {

VRAM_RT(cudaDeviceGetDefaultMemPool, (cudaMemPool_t * pool, int device),
        { return cuDeviceGetDefaultMemPool(pool, device); })
VRAM_RT(cudaDeviceGetMemPool, (cudaMemPool_t * pool, int device),
        { return cuDeviceGetMemPool(pool, device); })
VRAM_RT(cudaDeviceSetMemPool, (int device, cudaMemPool_t pool),
        { return cuDeviceSetMemPool(device, pool); })
VRAM_RT(cudaMemPoolCreate, (cudaMemPool_t * pool, const cudaMemPoolProps* properties), {
  static_assert(sizeof(CUmemPoolProps) == sizeof(cudaMemPoolProps));
  return cuMemPoolCreate(pool, reinterpret_cast<const CUmemPoolProps*>(properties));
})
VRAM_RT(cudaMemPoolDestroy, (cudaMemPool_t pool), { return cuMemPoolDestroy(pool); })
VRAM_RT(cudaMemPoolTrimTo, (cudaMemPool_t pool, size_t bytes),
        { return cuMemPoolTrimTo(pool, bytes); })
VRAM_RT(cudaMemPoolGetAttribute, (cudaMemPool_t pool, cudaMemPoolAttr attribute, void* value),
        { return cuMemPoolGetAttribute(pool, static_cast<CUmemPool_attribute>(attribute), value); })
VRAM_RT(cudaMemPoolSetAttribute, (cudaMemPool_t pool, cudaMemPoolAttr attribute, void* value),
        { return cuMemPoolSetAttribute(pool, static_cast<CUmemPool_attribute>(attribute), value); })
VRAM_RT(cudaDeviceGraphMemTrim, (int device), { return cuDeviceGraphMemTrim(device); })
VRAM_RT(cudaDeviceGetGraphMemAttribute,
        (int device, cudaGraphMemAttributeType attribute, void* value), {
          return cuDeviceGetGraphMemAttribute(device, static_cast<CUgraphMem_attribute>(attribute),
                                              value);
        })
VRAM_RT(cudaDeviceSetGraphMemAttribute,
        (int device, cudaGraphMemAttributeType attribute, void* value), {
          return cuDeviceSetGraphMemAttribute(device, static_cast<CUgraphMem_attribute>(attribute),
                                              value);
        })

}  // extern "C"
