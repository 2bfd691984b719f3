// Entry points: devices, what they are called, what they can do.
#include <cuda.h>

#include <cstring>

#include "sim/context.h"
#include "sim/driver.h"
#include "sim/entry.h"
#include "sim/identity.h"
#include "sim/try.h"

using namespace vram::sim;

namespace {

CUresult total_bytes(size_t* bytes, CUdevice device) {
  VRAM_SIM_TRY(require_device(device));
  if (bytes == nullptr) return CUDA_ERROR_INVALID_VALUE;
  *bytes = driver().machine->card_bytes(card_of(device));
  return CUDA_SUCCESS;
}

CUresult copy_text(const std::string& text, char* out, int length) {
  if (out == nullptr || length <= 0) return CUDA_ERROR_INVALID_VALUE;
  std::strncpy(out, text.c_str(), static_cast<size_t>(length) - 1);
  out[length - 1] = '\0';
  return CUDA_SUCCESS;
}

CUresult uuid_of(CUuuid* uuid, CUdevice device) {
  VRAM_SIM_TRY(require_device(device));
  if (uuid == nullptr) return CUDA_ERROR_INVALID_VALUE;
  const auto bytes = card_uuid(driver().machine->name(), card_of(device));
  std::memcpy(uuid->bytes, bytes.data(), bytes.size());
  return CUDA_SUCCESS;
}

}  // namespace

CUresult cuDeviceGet(CUdevice* device, int ordinal) {
  VRAM_SIM_ENTER();
  VRAM_SIM_TRY(require_initialized());
  if (device == nullptr) return CUDA_ERROR_INVALID_VALUE;
  VRAM_SIM_TRY(require_device(ordinal));
  *device = ordinal;
  return CUDA_SUCCESS;
}

CUresult cuDeviceGetCount(int* count) {
  VRAM_SIM_ENTER();
  VRAM_SIM_TRY(require_initialized());
  if (count == nullptr) return CUDA_ERROR_INVALID_VALUE;
  *count = device_count();
  return CUDA_SUCCESS;
}

CUresult cuDeviceGetName(char* name, int length, CUdevice device) {
  VRAM_SIM_ENTER();
  VRAM_SIM_TRY(require_device(device));
  return copy_text(kCardName, name, length);
}

CUresult cuDeviceGetUuid(CUuuid* uuid, CUdevice device) {
  VRAM_SIM_ENTER();
  return uuid_of(uuid, device);
}

CUresult cuDeviceGetUuid_v2(CUuuid* uuid, CUdevice device) {
  VRAM_SIM_ENTER();
  return uuid_of(uuid, device);
}

CUresult cuDeviceTotalMem_v2(size_t* bytes, CUdevice device) {
  VRAM_SIM_ENTER();
  return total_bytes(bytes, device);
}

CUresult cuDeviceTotalMem(unsigned int* bytes, CUdevice device) {
  VRAM_SIM_ENTER();
  size_t total = 0;
  const CUresult result = total_bytes(bytes == nullptr ? nullptr : &total, device);
  if (result == CUDA_SUCCESS)
    *bytes = total > UINT32_MAX ? UINT32_MAX : static_cast<unsigned>(total);
  return result;
}

CUresult cuDeviceComputeCapability(int* major, int* minor, CUdevice device) {
  VRAM_SIM_ENTER();
  VRAM_SIM_TRY(require_device(device));
  if (major == nullptr || minor == nullptr) return CUDA_ERROR_INVALID_VALUE;
  *major = kComputeMajor;
  *minor = kComputeMinor;
  return CUDA_SUCCESS;
}

CUresult cuDeviceGetProperties(CUdevprop* properties, CUdevice device) {
  VRAM_SIM_ENTER();
  VRAM_SIM_TRY(require_device(device));
  if (properties == nullptr) return CUDA_ERROR_INVALID_VALUE;
  *properties = {};
  properties->maxThreadsPerBlock = 1024;
  properties->maxThreadsDim[0] = 1024;
  properties->maxThreadsDim[1] = 1024;
  properties->maxThreadsDim[2] = 64;
  properties->maxGridSize[0] = 2147483647;
  properties->maxGridSize[1] = 65535;
  properties->maxGridSize[2] = 65535;
  properties->sharedMemPerBlock = 49152;
  properties->totalConstantMemory = 65536;
  properties->SIMDWidth = 32;
  properties->memPitch = 2147483647;
  properties->regsPerBlock = 65536;
  properties->clockRate = 1980000;
  properties->textureAlign = 512;
  return CUDA_SUCCESS;
}

CUresult cuDeviceGetPCIBusId(char* text, int length, CUdevice device) {
  VRAM_SIM_ENTER();
  VRAM_SIM_TRY(require_device(device));
  return copy_text(pci_bus_id(card_of(device), 4), text, length);
}

CUresult cuDeviceGetByPCIBusId(CUdevice* device, const char* text) {
  VRAM_SIM_ENTER();
  VRAM_SIM_TRY(require_initialized());
  if (device == nullptr || text == nullptr) return CUDA_ERROR_INVALID_VALUE;
  const int card = card_at_bus_id(text, driver().machine->card_count());
  for (int i = 0; card >= 0 && i < device_count(); ++i) {
    if (card_of(i) != card) continue;
    *device = i;
    return CUDA_SUCCESS;
  }
  return CUDA_ERROR_INVALID_DEVICE;
}

CUresult cuDeviceGetLuid(char*, unsigned int*, CUdevice device) {
  VRAM_SIM_ENTER();
  VRAM_SIM_TRY(require_device(device));
  return CUDA_ERROR_NOT_SUPPORTED;  // Windows only
}

CUresult cuDeviceGetExecAffinitySupport(int* supported, CUexecAffinityType, CUdevice device) {
  VRAM_SIM_ENTER();
  VRAM_SIM_TRY(require_device(device));
  if (supported == nullptr) return CUDA_ERROR_INVALID_VALUE;
  *supported = 0;
  return CUDA_SUCCESS;
}

CUresult cuDeviceGetTexture1DLinearMaxWidth(size_t* width, CUarray_format, unsigned channels,
                                            CUdevice device) {
  VRAM_SIM_ENTER();
  VRAM_SIM_TRY(require_device(device));
  if (width == nullptr || channels == 0) return CUDA_ERROR_INVALID_VALUE;
  *width = 268435456;
  return CUDA_SUCCESS;
}
