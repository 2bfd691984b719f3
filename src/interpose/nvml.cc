// NVML as a governed program sees it: the card is its budget, the processes are those of its job.

#include "base/process_identity.h"
#include "driver/nvml_api.h"
#include "interpose/departed.h"
#include "interpose/job.h"
#include "ledger/devices.h"
#include "ledger/ledger.h"
#include "ledger/slots.h"

#define VRAM_EXPORT extern "C" __attribute__((visibility("default")))
#define VRAM_LOADED(symbol)                                       \
  if (!vram::driver::load()) return NVML_ERROR_LIBRARY_NOT_FOUND; \
  if (vram::driver::real_nvml.symbol == nullptr) return NVML_ERROR_FUNCTION_NOT_FOUND

namespace vram::interpose {
namespace {

using driver::real_nvml;

// "GPU-01234567-89ab-cdef-0123-456789abcdef" as 16 bytes. False: some other form, a MIG instance.
bool parse_uuid(const char* text, std::uint8_t* out) {
  if (text[0] != 'G' || text[1] != 'P' || text[2] != 'U' || text[3] != '-') return false;
  int digits = 0;
  for (const char* p = text + 4; *p != '\0'; ++p) {
    int value = 0;
    if (*p == '-') continue;
    if (*p >= '0' && *p <= '9') {
      value = *p - '0';
    } else if (*p >= 'a' && *p <= 'f') {
      value = *p - 'a' + 10;
    } else {
      return false;
    }
    if (digits == 32) return false;
    const int shifted = digits % 2 == 0 ? value << 4 : out[digits / 2] | value;
    out[digits / 2] = static_cast<std::uint8_t>(shifted);
    ++digits;
  }
  return digits == 32;
}

// The job's account of this card; false when there is no job or the card is not in it.
bool account_of(nvmlDevice_t device, ledger::Usage* usage) {
  wire::Job* shared = job();
  char text[NVML_DEVICE_UUID_V2_BUFFER_SIZE] = "";
  std::uint8_t uuid[16] = {};
  if (shared == nullptr || real_nvml.nvmlDeviceGetUUID == nullptr ||
      real_nvml.nvmlDeviceGetUUID(device, text, sizeof text) != NVML_SUCCESS ||
      !parse_uuid(text, uuid)) {
    return false;
  }
  const std::uint32_t found = ledger::find_device(*shared, uuid);
  if (found == ledger::kNoDevice) return false;
  reap_departed(*shared);
  *usage = ledger::Account(shared, found, 0, &ledger::real_world()).usage();
  return true;
}

bool in_job(unsigned pid) {
  const wire::Job* shared = job();
  const std::uint32_t used = ledger::slots_used(*shared);
  for (std::uint32_t slot = 0; slot < used; ++slot) {
    const std::uint64_t identity = ledger::identity_in(*shared, slot);
    if (ledger::occupied(identity) && base::pid_of(identity) == static_cast<int>(pid)) return true;
  }
  return false;
}

template <typename Memory>
void show_budget(nvmlDevice_t device, Memory* memory) {
  ledger::Usage usage{};
  if (!account_of(device, &usage) || usage.limit >= memory->total) return;
  memory->total = usage.limit;
  memory->used = usage.used < usage.limit ? usage.used : usage.limit;
  memory->free = usage.limit - memory->used;
}

// NVML's list with the rows of other jobs left out. As NVML does: with too little room the answer
// is the number needed.
template <typename Row, typename Call>
nvmlReturn_t own_processes(unsigned* count, Row* rows, Call call) {
  constexpr unsigned kMost = 1024;
  Row all[kMost];
  unsigned total = kMost;
  if (job() == nullptr || count == nullptr) return call(count, rows);
  const nvmlReturn_t result = call(&total, all);
  if (result != NVML_SUCCESS) return result;
  unsigned own = 0;
  for (unsigned i = 0; i < total; ++i) {
    if (in_job(all[i].pid)) all[own++] = all[i];
  }
  const unsigned room = *count;
  *count = own;
  if (own > 0 && (rows == nullptr || room < own)) return NVML_ERROR_INSUFFICIENT_SIZE;
  for (unsigned i = 0; i < own; ++i) rows[i] = all[i];
  return NVML_SUCCESS;
}

}  // namespace
}  // namespace vram::interpose

using namespace vram::interpose;
using vram::driver::real_nvml;

VRAM_EXPORT nvmlReturn_t nvmlDeviceGetMemoryInfo(nvmlDevice_t device, nvmlMemory_t* memory) {
  VRAM_LOADED(nvmlDeviceGetMemoryInfo);
  const nvmlReturn_t result = real_nvml.nvmlDeviceGetMemoryInfo(device, memory);
  if (result == NVML_SUCCESS) show_budget(device, memory);
  return result;
}

VRAM_EXPORT nvmlReturn_t nvmlDeviceGetMemoryInfo_v2(nvmlDevice_t device, nvmlMemory_v2_t* memory) {
  VRAM_LOADED(nvmlDeviceGetMemoryInfo_v2);
  const nvmlReturn_t result = real_nvml.nvmlDeviceGetMemoryInfo_v2(device, memory);
  if (result != NVML_SUCCESS) return result;
  const unsigned long long total = memory->total;
  show_budget(device, memory);
  // What the driver reserves on the card is no part of a budget.
  if (memory->total != total) memory->reserved = 0;
  return result;
}

#define VRAM_PROCESSES(symbol, type)                                                            \
  VRAM_EXPORT nvmlReturn_t symbol(nvmlDevice_t device, unsigned* count, type* rows) {           \
    VRAM_LOADED(symbol);                                                                        \
    return own_processes(                                                                       \
        count, rows, [&](unsigned* n, type* out) { return real_nvml.symbol(device, n, out); }); \
  }

VRAM_PROCESSES(nvmlDeviceGetComputeRunningProcesses, nvmlProcessInfo_v1_t)
VRAM_PROCESSES(nvmlDeviceGetComputeRunningProcesses_v2, nvmlProcessInfo_v2_t)
VRAM_PROCESSES(nvmlDeviceGetComputeRunningProcesses_v3, nvmlProcessInfo_t)
VRAM_PROCESSES(nvmlDeviceGetGraphicsRunningProcesses, nvmlProcessInfo_v1_t)
VRAM_PROCESSES(nvmlDeviceGetGraphicsRunningProcesses_v2, nvmlProcessInfo_v2_t)
VRAM_PROCESSES(nvmlDeviceGetGraphicsRunningProcesses_v3, nvmlProcessInfo_t)
VRAM_PROCESSES(nvmlDeviceGetMPSComputeRunningProcesses, nvmlProcessInfo_v1_t)
VRAM_PROCESSES(nvmlDeviceGetMPSComputeRunningProcesses_v2, nvmlProcessInfo_v2_t)
VRAM_PROCESSES(nvmlDeviceGetMPSComputeRunningProcesses_v3, nvmlProcessInfo_t)

VRAM_EXPORT nvmlReturn_t nvmlDeviceGetRunningProcessDetailList(nvmlDevice_t device,
                                                               nvmlProcessDetailList_t* list) {
  VRAM_LOADED(nvmlDeviceGetRunningProcessDetailList);
  if (list == nullptr) return real_nvml.nvmlDeviceGetRunningProcessDetailList(device, list);
  nvmlProcessDetailList_t asked = *list;
  const nvmlReturn_t result = own_processes(
      &list->numProcArrayEntries, list->procArray,
      [&](unsigned* count, nvmlProcessDetail_v1_t* rows) {
        asked.numProcArrayEntries = *count;
        asked.procArray = rows;
        const nvmlReturn_t told = real_nvml.nvmlDeviceGetRunningProcessDetailList(device, &asked);
        *count = asked.numProcArrayEntries;
        return told;
      });
  return result;
}
