#pragma once

// The driver functions that a pool calls, as a table: the library fills it from libcuda.so.1
// (open_driver), the interposer from the real functions it governs, a test from whatever it likes.
//
// A slot is null when the driver has no such function. All functions are the newest versions with
// 64-bit sizes and the legacy default stream.

#include "driver/cuda_api.h"

namespace vram::pool {

// X(slot, exported symbol)
#define VRAM_POOL_DRIVER_CALLS(X)                      \
  X(init, cuInit)                                      \
  X(driver_version, cuDriverGetVersion)                \
  X(device_count, cuDeviceGetCount)                    \
  X(device_get, cuDeviceGet)                           \
  X(device_name, cuDeviceGetName)                      \
  X(device_attribute, cuDeviceGetAttribute)            \
  X(device_total, cuDeviceTotalMem_v2)                 \
  X(device_uuid, cuDeviceGetUuid_v2)                   \
  X(device_pci_bus_id, cuDeviceGetPCIBusId)            \
  X(primary_retain, cuDevicePrimaryCtxRetain)          \
  X(primary_release, cuDevicePrimaryCtxRelease_v2)     \
  X(context_push, cuCtxPushCurrent_v2)                 \
  X(context_pop, cuCtxPopCurrent_v2)                   \
  X(mem_info, cuMemGetInfo_v2)                         \
  X(mem_alloc, cuMemAlloc_v2)                          \
  X(mem_alloc_managed, cuMemAllocManaged)              \
  X(mem_free, cuMemFree_v2)                            \
  X(host_alloc, cuMemHostAlloc)                        \
  X(host_free, cuMemFreeHost)                          \
  X(host_device_pointer, cuMemHostGetDevicePointer_v2) \
  X(granularity, cuMemGetAllocationGranularity)        \
  X(address_reserve, cuMemAddressReserve)              \
  X(address_free, cuMemAddressFree)                    \
  X(handle_create, cuMemCreate)                        \
  X(handle_release, cuMemRelease)                      \
  X(map, cuMemMap)                                     \
  X(unmap, cuMemUnmap)                                 \
  X(set_access, cuMemSetAccess)                        \
  X(stream_write, cuStreamWriteValue64_v2)             \
  X(stream_wait, cuStreamWaitValue64_v2)               \
  X(stream_query, cuStreamQuery)                       \
  X(stream_is_capturing, cuStreamIsCapturing)          \
  X(capture_mode, cuThreadExchangeStreamCaptureMode)   \
  X(stream_synchronize, cuStreamSynchronize)           \
  X(context_synchronize, cuCtxSynchronize)             \
  X(async_alloc, cuMemAllocFromPoolAsync)              \
  X(async_free, cuMemFreeAsync)                        \
  X(async_pool_create, cuMemPoolCreate)                \
  X(async_pool_destroy, cuMemPoolDestroy)              \
  X(async_pool_default, cuDeviceGetDefaultMemPool)     \
  X(async_pool_set, cuMemPoolSetAttribute)             \
  X(async_pool_get, cuMemPoolGetAttribute)             \
  X(async_pool_trim, cuMemPoolTrimTo)

struct DriverCalls {
#define VRAM_POOL_SLOT(slot, symbol) decltype(&::symbol) slot = nullptr;
  VRAM_POOL_DRIVER_CALLS(VRAM_POOL_SLOT)
#undef VRAM_POOL_SLOT
};

}  // namespace vram::pool
