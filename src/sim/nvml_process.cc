// Entry points: which processes use a card. All of them compute.
#include <nvml.h>

#include <vector>

#include "sim/nvml_state.h"

using namespace vram::sim;

namespace {

constexpr unsigned kNoInstance = 0xffffffff;  // no MIG

void fill(const CardProcess& process, nvmlProcessInfo_v1_t* out) {
  out->pid = static_cast<unsigned>(process.pid);
  out->usedGpuMemory = process.used_bytes;
}

void fill(const CardProcess& process, nvmlProcessInfo_v2_t* out) {
  out->pid = static_cast<unsigned>(process.pid);
  out->usedGpuMemory = process.used_bytes;
  out->gpuInstanceId = kNoInstance;
  out->computeInstanceId = kNoInstance;
}

void fill(const CardProcess& process, nvmlProcessDetail_v1_t* out) {
  out->pid = static_cast<unsigned>(process.pid);
  out->usedGpuMemory = process.used_bytes;
  out->gpuInstanceId = kNoInstance;
  out->computeInstanceId = kNoInstance;
  out->usedGpuCcProtectedMemory = 0;
}

// `*count` is the room on entry and the number of processes on return.
template <typename Info>
nvmlReturn_t list(const std::vector<CardProcess>& processes, unsigned* count, Info* infos) {
  const unsigned room = *count;
  *count = static_cast<unsigned>(processes.size());
  if (*count > room) return NVML_ERROR_INSUFFICIENT_SIZE;
  if (*count != 0 && infos == nullptr) return NVML_ERROR_INVALID_ARGUMENT;
  for (size_t i = 0; i < processes.size(); ++i) fill(processes[i], &infos[i]);
  return NVML_SUCCESS;
}

template <typename Info>
nvmlReturn_t list_compute(nvmlDevice_t device, unsigned* count, Info* infos) {
  Machine* machine = nullptr;
  int card = 0;
  if (const nvmlReturn_t result = find_card(device, &machine, &card); result != NVML_SUCCESS) {
    return result;
  }
  if (count == nullptr) return NVML_ERROR_INVALID_ARGUMENT;
  return list(machine->processes(card), count, infos);
}

nvmlReturn_t list_none(nvmlDevice_t device, unsigned* count) {
  Machine* machine = nullptr;
  int card = 0;
  if (const nvmlReturn_t result = find_card(device, &machine, &card); result != NVML_SUCCESS) {
    return result;
  }
  if (count == nullptr) return NVML_ERROR_INVALID_ARGUMENT;
  *count = 0;
  return NVML_SUCCESS;
}

}  // namespace

nvmlReturn_t nvmlDeviceGetComputeRunningProcesses(nvmlDevice_t device, unsigned int* count,
                                                  nvmlProcessInfo_v1_t* infos) {
  return list_compute(device, count, infos);
}

nvmlReturn_t nvmlDeviceGetComputeRunningProcesses_v2(nvmlDevice_t device, unsigned int* count,
                                                     nvmlProcessInfo_v2_t* infos) {
  return list_compute(device, count, infos);
}

nvmlReturn_t nvmlDeviceGetComputeRunningProcesses_v3(nvmlDevice_t device, unsigned int* count,
                                                     nvmlProcessInfo_t* infos) {
  return list_compute(device, count, infos);
}

nvmlReturn_t nvmlDeviceGetGraphicsRunningProcesses(nvmlDevice_t device, unsigned int* count,
                                                   nvmlProcessInfo_v1_t*) {
  return list_none(device, count);
}

nvmlReturn_t nvmlDeviceGetGraphicsRunningProcesses_v2(nvmlDevice_t device, unsigned int* count,
                                                      nvmlProcessInfo_v2_t*) {
  return list_none(device, count);
}

nvmlReturn_t nvmlDeviceGetGraphicsRunningProcesses_v3(nvmlDevice_t device, unsigned int* count,
                                                      nvmlProcessInfo_t*) {
  return list_none(device, count);
}

nvmlReturn_t nvmlDeviceGetMPSComputeRunningProcesses(nvmlDevice_t device, unsigned int* count,
                                                     nvmlProcessInfo_v1_t*) {
  return list_none(device, count);
}

nvmlReturn_t nvmlDeviceGetMPSComputeRunningProcesses_v2(nvmlDevice_t device, unsigned int* count,
                                                        nvmlProcessInfo_v2_t*) {
  return list_none(device, count);
}

nvmlReturn_t nvmlDeviceGetMPSComputeRunningProcesses_v3(nvmlDevice_t device, unsigned int* count,
                                                        nvmlProcessInfo_t*) {
  return list_none(device, count);
}

nvmlReturn_t nvmlDeviceGetRunningProcessDetailList(nvmlDevice_t device,
                                                   nvmlProcessDetailList_t* details) {
  Machine* machine = nullptr;
  int card = 0;
  if (const nvmlReturn_t result = find_card(device, &machine, &card); result != NVML_SUCCESS) {
    return result;
  }
  if (details == nullptr) return NVML_ERROR_INVALID_ARGUMENT;
  if (details->version != nvmlProcessDetailList_v1) return NVML_ERROR_ARGUMENT_VERSION_MISMATCH;
  constexpr unsigned kCompute = 0;
  if (details->mode != kCompute) return list_none(device, &details->numProcArrayEntries);
  return list(machine->processes(card), &details->numProcArrayEntries, details->procArray);
}
