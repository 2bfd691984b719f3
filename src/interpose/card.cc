#include "interpose/card.h"

#include <dlfcn.h>
#include <nvml.h>
#include <pthread.h>
#include <stdio.h>

#include "driver/dlopen.h"
#include "interpose/job.h"

namespace vram::interpose {
namespace {

struct Nvml {
  decltype(&::nvmlInit_v2) init;
  decltype(&::nvmlDeviceGetHandleByUUID) by_uuid;
  decltype(&::nvmlDeviceGetComputeRunningProcesses_v3) processes;
  decltype(&::nvmlDeviceGetMemoryInfo_v2) memory;
  bool usable;
};
Nvml nvml{};
pthread_once_t once = PTHREAD_ONCE_INIT;

// Where NVML's stand-in is loaded, the library's exports lead to what a program is shown. What is
// measured has to be what the card holds.
void* own_function(void* library, const char* name) {
  void* at = dlsym(RTLD_DEFAULT, "vram_nvml_real");
  if (at == nullptr) at = dlsym(library, "vram_nvml_real");
  const auto real = reinterpret_cast<decltype(&vram_nvml_real)>(at);
  void* own = real == nullptr ? nullptr : real(name);
  return own != nullptr ? own : dlsym(library, name);
}

template <typename Function>
bool find(void* library, const char* name, Function* function) {
  *function = reinterpret_cast<Function>(own_function(library, name));
  return *function != nullptr;
}

void open_nvml() {
  const char* chosen = job()->header.nvml_path;
  void* library = dlopen(*chosen != '\0' ? chosen : "libnvidia-ml.so.1", RTLD_NOW | RTLD_LOCAL);
  if (library == nullptr) return;
  nvml.usable = find(library, "nvmlInit_v2", &nvml.init) &&
                find(library, "nvmlDeviceGetHandleByUUID", &nvml.by_uuid) &&
                find(library, "nvmlDeviceGetComputeRunningProcesses_v3", &nvml.processes) &&
                find(library, "nvmlDeviceGetMemoryInfo_v2", &nvml.memory) &&
                nvml.init() == NVML_SUCCESS;
}

void format_uuid(const std::uint8_t* uuid, char* out, std::size_t size) {
  char* at = out;
  at += snprintf(at, size, "GPU-");
  for (int i = 0; i < 16; ++i) {
    const bool dash = i == 4 || i == 6 || i == 8 || i == 10;
    at += snprintf(at, size - static_cast<std::size_t>(at - out), dash ? "-%02x" : "%02x", uuid[i]);
  }
}

nvmlDevice_t handle_of(const Device& device) {
  char uuid[48];
  format_uuid(device.uuid, uuid, sizeof uuid);
  nvmlDevice_t handle = nullptr;
  return nvml.by_uuid(uuid, &handle) == NVML_SUCCESS ? handle : nullptr;
}

std::uint64_t used_bytes(nvmlDevice_t handle) {
  nvmlMemory_v2_t memory{};
  memory.version = nvmlMemory_v2;
  return nvml.memory(handle, &memory) == NVML_SUCCESS ? memory.used : 0;
}

// A process whose row NVML withholds counts for what it may hold: nothing can be said of the rest.
bool copy_rows(nvmlDevice_t handle, CardReading* card, std::uint64_t* sum) {
  nvmlProcessInfo_t rows[CardReading::kMost];
  unsigned count = CardReading::kMost;
  if (nvml.processes(handle, &count, rows) != NVML_SUCCESS) return false;
  card->count = 0;
  *sum = 0;
  for (unsigned i = 0; i < count; ++i) {
    const unsigned long long bytes = rows[i].usedGpuMemory;
    if (bytes == static_cast<unsigned long long>(NVML_VALUE_NOT_AVAILABLE)) continue;
    card->process[card->count++] = {rows[i].pid, bytes};
    *sum += bytes;
  }
  return card->count > 0;
}

// Another interface's memory on the same card is in no row either, so the share of a process is
// bounded; and a figure taken while the card changed is not used.
void note_beside(Device& device, std::uint64_t before, std::uint64_t after, std::uint64_t sum,
                 CardReading* card) {
  constexpr std::uint64_t kMost = 16 * kMiB;
  if (before == after && after >= sum) {
    const std::uint64_t each = round_up((after - sum) / card->count, wire::kGranule);
    device.beside_rows.store(each < kMost ? each : kMost, std::memory_order_relaxed);
  }
  card->beside_rows = device.beside_rows.load(std::memory_order_relaxed);
}

}  // namespace

bool read_card(Device& device, CardReading* card) {
  pthread_once(&once, open_nvml);
  if (!nvml.usable) return false;
  nvmlDevice_t handle = handle_of(device);
  std::uint64_t sum = 0;
  if (handle == nullptr) return false;
  const std::uint64_t before = used_bytes(handle);
  if (!copy_rows(handle, card, &sum)) return false;
  note_beside(device, before, used_bytes(handle), sum, card);
  return true;
}

}  // namespace vram::interpose
