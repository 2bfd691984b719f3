// Entry points: what a card is and how much of it is in use.
#include <nvml.h>

#include <cstdio>
#include <cstring>

#include "sim/identity.h"
#include "sim/nvml_state.h"

using namespace vram::sim;

namespace {

nvmlReturn_t pci_info(nvmlDevice_t device, nvmlPciInfo_t* info) {
  Machine* machine = nullptr;
  int card = 0;
  if (const nvmlReturn_t result = find_card(device, &machine, &card); result != NVML_SUCCESS) {
    return result;
  }
  if (info == nullptr) return NVML_ERROR_INVALID_ARGUMENT;
  *info = {};
  info->bus = static_cast<unsigned>(card_bus(card));
  info->pciDeviceId = 0x233510de;  // H200
  info->pciSubSystemId = 0x18be10de;
  std::snprintf(info->busIdLegacy, sizeof(info->busIdLegacy), "%s", pci_bus_id(card, 4).c_str());
  std::snprintf(info->busId, sizeof(info->busId), "%s", pci_bus_id(card, 8).c_str());
  return NVML_SUCCESS;
}

// For figures that the simulated card has no meaning for but tools insist on.
template <typename T>
nvmlReturn_t constant(nvmlDevice_t device, T* out, T value) {
  Machine* machine = nullptr;
  int card = 0;
  if (const nvmlReturn_t result = find_card(device, &machine, &card); result != NVML_SUCCESS) {
    return result;
  }
  if (out == nullptr) return NVML_ERROR_INVALID_ARGUMENT;
  *out = value;
  return NVML_SUCCESS;
}

}  // namespace

nvmlReturn_t nvmlDeviceGetName(nvmlDevice_t device, char* name, unsigned int length) {
  Machine* machine = nullptr;
  int card = 0;
  if (const nvmlReturn_t result = find_card(device, &machine, &card); result != NVML_SUCCESS) {
    return result;
  }
  return copy_text(kCardName, name, length);
}

nvmlReturn_t nvmlDeviceGetUUID(nvmlDevice_t device, char* uuid, unsigned int length) {
  Machine* machine = nullptr;
  int card = 0;
  if (const nvmlReturn_t result = find_card(device, &machine, &card); result != NVML_SUCCESS) {
    return result;
  }
  return copy_text(uuid_text(card_uuid(machine->name(), card)).c_str(), uuid, length);
}

nvmlReturn_t nvmlDeviceGetIndex(nvmlDevice_t device, unsigned int* index) {
  Machine* machine = nullptr;
  int card = 0;
  if (const nvmlReturn_t result = find_card(device, &machine, &card); result != NVML_SUCCESS) {
    return result;
  }
  return constant(device, index, static_cast<unsigned>(card));
}

nvmlReturn_t nvmlDeviceGetMinorNumber(nvmlDevice_t device, unsigned int* minor) {
  return nvmlDeviceGetIndex(device, minor);
}

nvmlReturn_t nvmlDeviceGetPciInfo(nvmlDevice_t device, nvmlPciInfo_t* info) {
  return pci_info(device, info);
}

nvmlReturn_t nvmlDeviceGetPciInfo_v2(nvmlDevice_t device, nvmlPciInfo_t* info) {
  return pci_info(device, info);
}

nvmlReturn_t nvmlDeviceGetPciInfo_v3(nvmlDevice_t device, nvmlPciInfo_t* info) {
  return pci_info(device, info);
}

nvmlReturn_t nvmlDeviceGetMemoryInfo(nvmlDevice_t device, nvmlMemory_t* memory) {
  Machine* machine = nullptr;
  int card = 0;
  if (const nvmlReturn_t result = find_card(device, &machine, &card); result != NVML_SUCCESS) {
    return result;
  }
  if (memory == nullptr) return NVML_ERROR_INVALID_ARGUMENT;
  // Version 1 has no field for what the card keeps and counts it as used.
  const uint64_t used = machine->used_bytes(card) + kReservedBytes;
  memory->total = machine->card_bytes(card) + kReservedBytes;
  memory->used = used;
  memory->free = memory->total - used;
  return NVML_SUCCESS;
}

nvmlReturn_t nvmlDeviceGetMemoryInfo_v2(nvmlDevice_t device, nvmlMemory_v2_t* memory) {
  Machine* machine = nullptr;
  int card = 0;
  if (const nvmlReturn_t result = find_card(device, &machine, &card); result != NVML_SUCCESS) {
    return result;
  }
  if (memory == nullptr) return NVML_ERROR_INVALID_ARGUMENT;
  if (memory->version != nvmlMemory_v2) return NVML_ERROR_ARGUMENT_VERSION_MISMATCH;
  memory->total = machine->card_bytes(card) + kReservedBytes;
  memory->reserved = kReservedBytes;
  memory->used = machine->used_bytes(card);
  memory->free = memory->total - memory->reserved - memory->used;
  return NVML_SUCCESS;
}

nvmlReturn_t nvmlDeviceGetBAR1MemoryInfo(nvmlDevice_t device, nvmlBAR1Memory_t* memory) {
  Machine* machine = nullptr;
  int card = 0;
  if (const nvmlReturn_t result = find_card(device, &machine, &card); result != NVML_SUCCESS) {
    return result;
  }
  if (memory == nullptr) return NVML_ERROR_INVALID_ARGUMENT;
  memory->bar1Total = 256ull << 30;
  memory->bar1Used = 1ull << 20;
  memory->bar1Free = memory->bar1Total - memory->bar1Used;
  return NVML_SUCCESS;
}

nvmlReturn_t nvmlDeviceGetUtilizationRates(nvmlDevice_t device, nvmlUtilization_t* rates) {
  return constant(device, rates, nvmlUtilization_t{0, 0});
}

nvmlReturn_t nvmlDeviceGetCudaComputeCapability(nvmlDevice_t device, int* major, int* minor) {
  if (minor == nullptr) return NVML_ERROR_INVALID_ARGUMENT;
  const nvmlReturn_t result = constant(device, major, kComputeMajor);
  if (result == NVML_SUCCESS) *minor = kComputeMinor;
  return result;
}

nvmlReturn_t nvmlDeviceGetComputeMode(nvmlDevice_t device, nvmlComputeMode_t* mode) {
  return constant(device, mode, NVML_COMPUTEMODE_DEFAULT);
}

nvmlReturn_t nvmlDeviceGetPersistenceMode(nvmlDevice_t device, nvmlEnableState_t* mode) {
  return constant(device, mode, NVML_FEATURE_ENABLED);
}

nvmlReturn_t nvmlDeviceGetDisplayMode(nvmlDevice_t device, nvmlEnableState_t* mode) {
  return constant(device, mode, NVML_FEATURE_DISABLED);
}

nvmlReturn_t nvmlDeviceGetDisplayActive(nvmlDevice_t device, nvmlEnableState_t* active) {
  return constant(device, active, NVML_FEATURE_DISABLED);
}

nvmlReturn_t nvmlDeviceGetBrand(nvmlDevice_t device, nvmlBrandType_t* brand) {
  return constant(device, brand, NVML_BRAND_NVIDIA);
}

nvmlReturn_t nvmlDeviceGetArchitecture(nvmlDevice_t device, nvmlDeviceArchitecture_t* out) {
  return constant(device, out, nvmlDeviceArchitecture_t{NVML_DEVICE_ARCH_HOPPER});
}

nvmlReturn_t nvmlDeviceGetPerformanceState(nvmlDevice_t device, nvmlPstates_t* state) {
  return constant(device, state, NVML_PSTATE_0);
}

nvmlReturn_t nvmlDeviceGetTemperature(nvmlDevice_t device, nvmlTemperatureSensors_t,
                                      unsigned int* degrees) {
  return constant(device, degrees, 30u);
}

nvmlReturn_t nvmlDeviceGetPowerUsage(nvmlDevice_t device, unsigned int* milliwatts) {
  return constant(device, milliwatts, 75000u);
}

nvmlReturn_t nvmlDeviceGetEnforcedPowerLimit(nvmlDevice_t device, unsigned int* milliwatts) {
  return constant(device, milliwatts, 700000u);
}

nvmlReturn_t nvmlDeviceGetPowerManagementLimit(nvmlDevice_t device, unsigned int* milliwatts) {
  return constant(device, milliwatts, 700000u);
}

nvmlReturn_t nvmlDeviceGetNumGpuCores(nvmlDevice_t device, unsigned int* cores) {
  return constant(device, cores, static_cast<unsigned>(kMultiprocessors) * 128u);
}

nvmlReturn_t nvmlDeviceGetEccMode(nvmlDevice_t device, nvmlEnableState_t* current,
                                  nvmlEnableState_t* pending) {
  if (pending == nullptr) return NVML_ERROR_INVALID_ARGUMENT;
  const nvmlReturn_t result = constant(device, current, NVML_FEATURE_ENABLED);
  if (result == NVML_SUCCESS) *pending = NVML_FEATURE_ENABLED;
  return result;
}

nvmlReturn_t nvmlDeviceGetMigMode(nvmlDevice_t device, unsigned int* current,
                                  unsigned int* pending) {
  if (pending == nullptr) return NVML_ERROR_INVALID_ARGUMENT;
  const nvmlReturn_t result = constant(device, current, unsigned{NVML_DEVICE_MIG_DISABLE});
  if (result == NVML_SUCCESS) *pending = NVML_DEVICE_MIG_DISABLE;
  return result;
}

nvmlReturn_t nvmlDeviceIsMigDeviceHandle(nvmlDevice_t device, unsigned int* is_mig) {
  return constant(device, is_mig, 0u);
}

nvmlReturn_t nvmlDeviceGetMaxMigDeviceCount(nvmlDevice_t device, unsigned int* count) {
  return constant(device, count, 0u);
}

nvmlReturn_t nvmlDeviceGetVirtualizationMode(nvmlDevice_t device,
                                             nvmlGpuVirtualizationMode_t* mode) {
  return constant(device, mode, NVML_GPU_VIRTUALIZATION_MODE_NONE);
}
