// Devices.
#include <cstring>

#include "sim/runtime/runtime.h"

namespace vram::sim::runtime {
namespace {

struct IntegerField {
  int cudaDeviceProp::*field;
  CUdevice_attribute attribute;
};

constexpr IntegerField kIntegers[] = {
    {&cudaDeviceProp::regsPerBlock, CU_DEVICE_ATTRIBUTE_MAX_REGISTERS_PER_BLOCK},
    {&cudaDeviceProp::warpSize, CU_DEVICE_ATTRIBUTE_WARP_SIZE},
    {&cudaDeviceProp::maxThreadsPerBlock, CU_DEVICE_ATTRIBUTE_MAX_THREADS_PER_BLOCK},
    {&cudaDeviceProp::major, CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR},
    {&cudaDeviceProp::minor, CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR},
    {&cudaDeviceProp::multiProcessorCount, CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT},
    {&cudaDeviceProp::integrated, CU_DEVICE_ATTRIBUTE_INTEGRATED},
    {&cudaDeviceProp::canMapHostMemory, CU_DEVICE_ATTRIBUTE_CAN_MAP_HOST_MEMORY},
    {&cudaDeviceProp::concurrentKernels, CU_DEVICE_ATTRIBUTE_CONCURRENT_KERNELS},
    {&cudaDeviceProp::ECCEnabled, CU_DEVICE_ATTRIBUTE_ECC_ENABLED},
    {&cudaDeviceProp::pciBusID, CU_DEVICE_ATTRIBUTE_PCI_BUS_ID},
    {&cudaDeviceProp::pciDeviceID, CU_DEVICE_ATTRIBUTE_PCI_DEVICE_ID},
    {&cudaDeviceProp::pciDomainID, CU_DEVICE_ATTRIBUTE_PCI_DOMAIN_ID},
    {&cudaDeviceProp::asyncEngineCount, CU_DEVICE_ATTRIBUTE_ASYNC_ENGINE_COUNT},
    {&cudaDeviceProp::unifiedAddressing, CU_DEVICE_ATTRIBUTE_UNIFIED_ADDRESSING},
    {&cudaDeviceProp::memoryBusWidth, CU_DEVICE_ATTRIBUTE_GLOBAL_MEMORY_BUS_WIDTH},
    {&cudaDeviceProp::l2CacheSize, CU_DEVICE_ATTRIBUTE_L2_CACHE_SIZE},
    {&cudaDeviceProp::maxThreadsPerMultiProcessor,
     CU_DEVICE_ATTRIBUTE_MAX_THREADS_PER_MULTIPROCESSOR},
    {&cudaDeviceProp::streamPrioritiesSupported, CU_DEVICE_ATTRIBUTE_STREAM_PRIORITIES_SUPPORTED},
    {&cudaDeviceProp::regsPerMultiprocessor, CU_DEVICE_ATTRIBUTE_MAX_REGISTERS_PER_MULTIPROCESSOR},
    {&cudaDeviceProp::managedMemory, CU_DEVICE_ATTRIBUTE_MANAGED_MEMORY},
    {&cudaDeviceProp::pageableMemoryAccess, CU_DEVICE_ATTRIBUTE_PAGEABLE_MEMORY_ACCESS},
    {&cudaDeviceProp::concurrentManagedAccess, CU_DEVICE_ATTRIBUTE_CONCURRENT_MANAGED_ACCESS},
    {&cudaDeviceProp::computePreemptionSupported, CU_DEVICE_ATTRIBUTE_COMPUTE_PREEMPTION_SUPPORTED},
    {&cudaDeviceProp::canUseHostPointerForRegisteredMem,
     CU_DEVICE_ATTRIBUTE_CAN_USE_HOST_POINTER_FOR_REGISTERED_MEM},
    {&cudaDeviceProp::cooperativeLaunch, CU_DEVICE_ATTRIBUTE_COOPERATIVE_LAUNCH},
    {&cudaDeviceProp::maxBlocksPerMultiProcessor,
     CU_DEVICE_ATTRIBUTE_MAX_BLOCKS_PER_MULTIPROCESSOR},
    {&cudaDeviceProp::hostRegisterSupported, CU_DEVICE_ATTRIBUTE_HOST_REGISTER_SUPPORTED},
    {&cudaDeviceProp::memoryPoolsSupported, CU_DEVICE_ATTRIBUTE_MEMORY_POOLS_SUPPORTED},
    {&cudaDeviceProp::clusterLaunch, CU_DEVICE_ATTRIBUTE_CLUSTER_LAUNCH},
};

struct SizeField {
  size_t cudaDeviceProp::*field;
  CUdevice_attribute attribute;
};

constexpr SizeField kSizes[] = {
    {&cudaDeviceProp::sharedMemPerBlock, CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_BLOCK},
    {&cudaDeviceProp::memPitch, CU_DEVICE_ATTRIBUTE_MAX_PITCH},
    {&cudaDeviceProp::totalConstMem, CU_DEVICE_ATTRIBUTE_TOTAL_CONSTANT_MEMORY},
    {&cudaDeviceProp::textureAlignment, CU_DEVICE_ATTRIBUTE_TEXTURE_ALIGNMENT},
    {&cudaDeviceProp::texturePitchAlignment, CU_DEVICE_ATTRIBUTE_TEXTURE_PITCH_ALIGNMENT},
    {&cudaDeviceProp::surfaceAlignment, CU_DEVICE_ATTRIBUTE_SURFACE_ALIGNMENT},
    {&cudaDeviceProp::sharedMemPerMultiprocessor,
     CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_MULTIPROCESSOR},
    {&cudaDeviceProp::sharedMemPerBlockOptin,
     CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_BLOCK_OPTIN},
    {&cudaDeviceProp::reservedSharedMemPerBlock,
     CU_DEVICE_ATTRIBUTE_RESERVED_SHARED_MEMORY_PER_BLOCK},
};

// A driver that does not know an attribute leaves its field zero.
int attribute_of(CUdevice device, CUdevice_attribute attribute) {
  int value = 0;
  return cuDeviceGetAttribute(&value, attribute, device) == CUDA_SUCCESS ? value : 0;
}

CUresult properties_of(CUdevice device, cudaDeviceProp* out) {
  cudaDeviceProp properties{};
  VRAM_RT_TRY(cuDeviceGetName(properties.name, sizeof(properties.name), device));
  VRAM_RT_TRY(cuDeviceTotalMem(&properties.totalGlobalMem, device));
  CUuuid uuid{};
  VRAM_RT_TRY(cuDeviceGetUuid(&uuid, device));
  std::memcpy(&properties.uuid, &uuid, sizeof(uuid));
  for (const IntegerField& each : kIntegers) {
    properties.*each.field = attribute_of(device, each.attribute);
  }
  for (const SizeField& each : kSizes) {
    properties.*each.field = static_cast<size_t>(attribute_of(device, each.attribute));
  }
  for (int i = 0; i < 3; ++i) {
    properties.maxThreadsDim[i] = attribute_of(
        device, static_cast<CUdevice_attribute>(CU_DEVICE_ATTRIBUTE_MAX_BLOCK_DIM_X + i));
    properties.maxGridSize[i] = attribute_of(
        device, static_cast<CUdevice_attribute>(CU_DEVICE_ATTRIBUTE_MAX_GRID_DIM_X + i));
  }
  *out = properties;
  return CUDA_SUCCESS;
}

// Questions that need a driver but no context.
cudaError_t ask(CUresult (*question)(int* value), int* value) {
  if (value == nullptr) return finish(cudaErrorInvalidValue);
  const CUresult result = cuInit(0);
  return finish(result == CUDA_SUCCESS ? question(value) : result);
}

}  // namespace
}  // namespace vram::sim::runtime

using namespace vram::sim::runtime;

extern "C" {

cudaError_t cudaGetDeviceCount(int* count) {
  const cudaError_t error = ask(cuDeviceGetCount, count);
  return error == cudaSuccess && *count == 0 ? finish(cudaErrorNoDevice) : error;
}
cudaError_t cudaDriverGetVersion(int* version) { return finish(cuDriverGetVersion(version)); }
cudaError_t cudaRuntimeGetVersion(int* version) {
  if (version == nullptr) return finish(cudaErrorInvalidValue);
  *version = CUDART_VERSION;
  return cudaSuccess;
}
cudaError_t cudaSetDevice(int device) { return finish(choose_device(device)); }
cudaError_t cudaInitDevice(int device, unsigned, unsigned) { return finish(choose_device(device)); }
cudaError_t cudaGetDevice(int* device) {
  if (device == nullptr) return finish(cudaErrorInvalidValue);
  *device = chosen_device();
  return cudaSuccess;
}
cudaError_t cudaDeviceReset() { return finish(reset_device()); }

VRAM_RT(cudaGetDeviceProperties, (cudaDeviceProp * properties, int device), {
  if (properties == nullptr) return CUDA_ERROR_INVALID_VALUE;
  return properties_of(device, properties);
})
VRAM_RT(cudaDeviceGetAttribute, (int* value, cudaDeviceAttr attribute, int device),
        { return cuDeviceGetAttribute(value, static_cast<CUdevice_attribute>(attribute), device); })
VRAM_RT(cudaChooseDevice, (int* device, const cudaDeviceProp*), {
  *device = 0;
  return CUDA_SUCCESS;
})
VRAM_RT(cudaDeviceSynchronize, (), { return cuCtxSynchronize(); })
VRAM_RT(cudaDeviceGetLimit, (size_t * value, cudaLimit limit),
        { return cuCtxGetLimit(value, static_cast<CUlimit>(limit)); })
VRAM_RT(cudaDeviceSetLimit, (cudaLimit limit, size_t value),
        { return cuCtxSetLimit(static_cast<CUlimit>(limit), value); })
VRAM_RT(cudaDeviceGetCacheConfig, (cudaFuncCache * config),
        { return cuCtxGetCacheConfig(reinterpret_cast<CUfunc_cache*>(config)); })
VRAM_RT(cudaDeviceSetCacheConfig, (cudaFuncCache config),
        { return cuCtxSetCacheConfig(static_cast<CUfunc_cache>(config)); })
VRAM_RT(cudaDeviceGetStreamPriorityRange, (int* least, int* greatest),
        { return cuCtxGetStreamPriorityRange(least, greatest); })
VRAM_RT(cudaDeviceGetPCIBusId, (char* text, int length, int device),
        { return cuDeviceGetPCIBusId(text, length, device); })
VRAM_RT(cudaDeviceGetByPCIBusId, (int* device, const char* text),
        { return cuDeviceGetByPCIBusId(device, text); })
VRAM_RT(cudaDeviceCanAccessPeer, (int* can, int device, int peer),
        { return cuDeviceCanAccessPeer(can, device, peer); })
VRAM_RT(cudaDeviceEnablePeerAccess, (int device, unsigned flags), {
  CUcontext peer = nullptr;
  VRAM_RT_TRY(cuDevicePrimaryCtxRetain(&peer, device));
  const CUresult result = cuCtxEnablePeerAccess(peer, flags);
  static_cast<void>(cuDevicePrimaryCtxRelease(device));
  return result;
})
VRAM_RT(cudaDeviceDisablePeerAccess, (int device), {
  CUcontext peer = nullptr;
  VRAM_RT_TRY(cuDevicePrimaryCtxRetain(&peer, device));
  const CUresult result = cuCtxDisablePeerAccess(peer);
  static_cast<void>(cuDevicePrimaryCtxRelease(device));
  return result;
})
VRAM_RT(cudaMemGetInfo, (size_t * free, size_t* total), { return cuMemGetInfo(free, total); })
VRAM_RT(cudaSetDeviceFlags, (unsigned flags),
        { return cuDevicePrimaryCtxSetFlags(chosen_device(), flags & CU_CTX_FLAGS_MASK); })
VRAM_RT(cudaGetDeviceFlags, (unsigned* flags), { return cuCtxGetFlags(flags); })
VRAM_RT(cudaProfilerStart, (), { return CUDA_SUCCESS; })
VRAM_RT(cudaProfilerStop, (), { return CUDA_SUCCESS; })

}  // extern "C"
