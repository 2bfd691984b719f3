#include "interpose/measure.h"

#include <dlfcn.h>
#include <nvml.h>
#include <pthread.h>
#include <stdio.h>
#include <unistd.h>

#include "interpose/job.h"

namespace vram::interpose {
namespace {

using ledger::Account;
using wire::Part;

struct Nvml {
  decltype(&::nvmlInit_v2) init;
  decltype(&::nvmlDeviceGetHandleByUUID) by_uuid;
  decltype(&::nvmlDeviceGetComputeRunningProcesses_v3) processes;
  bool usable;
};
Nvml nvml{};
pthread_once_t once = PTHREAD_ONCE_INIT;

void open_nvml() {
  const wire::Job* shared = job();
  const char* chosen = shared == nullptr ? "" : shared->header.nvml_path;
  void* library = dlopen(*chosen != '\0' ? chosen : "libnvidia-ml.so.1", RTLD_NOW | RTLD_LOCAL);
  if (library == nullptr) return;
  nvml.init = reinterpret_cast<decltype(nvml.init)>(dlsym(library, "nvmlInit_v2"));
  nvml.by_uuid =
      reinterpret_cast<decltype(nvml.by_uuid)>(dlsym(library, "nvmlDeviceGetHandleByUUID"));
  nvml.processes = reinterpret_cast<decltype(nvml.processes)>(
      dlsym(library, "nvmlDeviceGetComputeRunningProcesses_v3"));
  if (nvml.init == nullptr || nvml.by_uuid == nullptr || nvml.processes == nullptr) return;
  nvml.usable = nvml.init() == NVML_SUCCESS;
}

void format_uuid(const std::uint8_t* uuid, char* out, std::size_t size) {
  char* at = out;
  at += snprintf(at, size, "GPU-");
  for (int i = 0; i < 16; ++i) {
    const bool dash = i == 4 || i == 6 || i == 8 || i == 10;
    at += snprintf(at, size - static_cast<std::size_t>(at - out), dash ? "-%02x" : "%02x", uuid[i]);
  }
}

std::uint64_t named_bytes(const Account& account) {
  return account.part(Part::kBlocks) + account.part(Part::kVirtual) + account.part(Part::kPools) +
         account.part(Part::kGraphs);
}

// One try. False: something was allocated or freed meanwhile, the figures do not belong together.
bool measure_once(Device& device) {
  const Account& account = device.account;
  const std::uint64_t before = named_bytes(account);
  if (account.own_pending() != 0) return false;
  std::uint64_t held = 0;
  if (!held_by_process(device, &held)) return true;
  if (account.own_pending() != 0 || named_bytes(account) != before) return false;
  const std::uint64_t measured = held > before ? held - before : 0;
  const std::uint64_t charged = account.part(Part::kContext);
  if (!account.swap_part(Part::kContext, charged, measured)) return false;
  if (measured > charged) account.charge(measured - charged);
  if (measured < charged) account.uncharge(charged - measured);
  return true;
}

}  // namespace

bool held_by_process(const Device& device, std::uint64_t* bytes) {
  pthread_once(&once, open_nvml);
  if (!nvml.usable) return false;
  char uuid[48];
  format_uuid(device.uuid, uuid, sizeof uuid);
  nvmlDevice_t handle = nullptr;
  if (nvml.by_uuid(uuid, &handle) != NVML_SUCCESS) return false;
  constexpr unsigned kMost = 512;
  nvmlProcessInfo_t rows[kMost];
  unsigned count = kMost;
  if (nvml.processes(handle, &count, rows) != NVML_SUCCESS) return false;
  const auto self = static_cast<unsigned>(getpid());
  for (unsigned i = 0; i < count; ++i) {
    if (rows[i].pid != self) continue;
    if (rows[i].usedGpuMemory == static_cast<unsigned long long>(NVML_VALUE_NOT_AVAILABLE)) {
      return false;
    }
    *bytes = rows[i].usedGpuMemory;
    return true;
  }
  return false;
}

void measure(Device& device) {
  constexpr int kTries = 4;
  for (int i = 0; i < kTries && !measure_once(device); ++i) {
  }
}

void measure_all() {
  Process& self = process();
  for (std::uint32_t d = 0; d < self.device_count; ++d) measure(self.device[d]);
}

bool over_limit(const Device& device) {
  const ledger::Usage usage = device.account.usage();
  return usage.used > usage.limit;
}

void orphan(Device& device, Part part, std::uint64_t bytes) {
  if (bytes == 0) return;
  const Account& account = device.account;
  account.add_part(part, -static_cast<std::int64_t>(bytes));
  account.add_part(Part::kContext, static_cast<std::int64_t>(bytes));
  device.orphaned.fetch_add(bytes, std::memory_order_acq_rel);
  remeasure_orphans();
}

void remeasure_orphans() {
  Process& self = process();
  for (std::uint32_t d = 0; d < self.device_count; ++d) {
    Device& device = self.device[d];
    const std::uint64_t orphaned = device.orphaned.load(std::memory_order_acquire);
    if (orphaned == 0) continue;
    const std::uint64_t before = device.account.part(Part::kContext);
    measure(device);
    const std::uint64_t after = device.account.part(Part::kContext);
    if (after < before) {
      const std::uint64_t gone = before - after < orphaned ? before - after : orphaned;
      device.orphaned.fetch_sub(gone, std::memory_order_acq_rel);
    }
  }
}

}  // namespace vram::interpose
