// A management library that says what a test wants, for hosts the simulator does not have: old
// drivers, cards in MIG mode, cards of different models, a driver that does not answer.
//
//   FAKE_NVML_CUDA    CUDA version, as cuda.h writes it (13000)
//   FAKE_NVML_INIT    what nvmlInit returns (0)
//   FAKE_NVML_CARDS   number of cards of 24 GiB (1)
//   FAKE_NVML_MIG     index of the card that is in MIG mode (none)
//   FAKE_NVML_MIXED   set: every card is of another model
//   FAKE_NVML_TAKEN   folder with a file a process, PID, that says how many bytes it has of every
//                     card; those of dead processes do not count
#include <dirent.h>
#include <nvml.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static int number(const char* name, int otherwise) {
  const char* text = getenv(name);
  return text != NULL ? atoi(text) : otherwise;
}

static unsigned index_of(nvmlDevice_t device) { return (unsigned)((size_t)device - 1); }

nvmlReturn_t nvmlInit_v2(void) { return (nvmlReturn_t)number("FAKE_NVML_INIT", 0); }
nvmlReturn_t nvmlShutdown(void) { return NVML_SUCCESS; }

const char* nvmlErrorString(nvmlReturn_t result) {
  return result == NVML_ERROR_DRIVER_NOT_LOADED ? "Driver Not Loaded" : "Unknown Error";
}

nvmlReturn_t nvmlDeviceGetCount_v2(unsigned* count) {
  *count = (unsigned)number("FAKE_NVML_CARDS", 1);
  return NVML_SUCCESS;
}

nvmlReturn_t nvmlDeviceGetHandleByIndex_v2(unsigned index, nvmlDevice_t* device) {
  *device = (nvmlDevice_t)((size_t)index + 1);
  return NVML_SUCCESS;
}

nvmlReturn_t nvmlDeviceGetUUID(nvmlDevice_t device, char* uuid, unsigned length) {
  snprintf(uuid, length, "GPU-%08x-1111-2222-3333-444444444444", 0xabc00000u + index_of(device));
  return NVML_SUCCESS;
}

nvmlReturn_t nvmlDeviceGetName(nvmlDevice_t device, char* name, unsigned length) {
  if (getenv("FAKE_NVML_MIXED") != NULL) {
    snprintf(name, length, "Card of model %u", index_of(device));
  } else {
    snprintf(name, length, "Card");
  }
  return NVML_SUCCESS;
}

nvmlReturn_t nvmlDeviceGetPciInfo_v3(nvmlDevice_t device, nvmlPciInfo_t* pci) {
  snprintf(pci->busIdLegacy, sizeof pci->busIdLegacy, "0000:%02x:00.0", index_of(device) + 1);
  return NVML_SUCCESS;
}

static unsigned long long taken_in(const char* folder) {
  unsigned long long all = 0;
  DIR* entries = opendir(folder);
  if (entries == NULL) return 0;
  for (const struct dirent* entry; (entry = readdir(entries)) != NULL;) {
    const int pid = atoi(entry->d_name);
    char path[4096];
    unsigned long long bytes = 0;
    snprintf(path, sizeof path, "%s/%d", folder, pid);
    FILE* file = pid > 0 && kill(pid, 0) == 0 ? fopen(path, "r") : NULL;
    if (file == NULL) continue;
    if (fscanf(file, "%llu", &bytes) == 1) all += bytes;
    fclose(file);
  }
  closedir(entries);
  return all;
}

// The first version alone, as drivers of 2021 have it.
nvmlReturn_t nvmlDeviceGetMemoryInfo(nvmlDevice_t device, nvmlMemory_t* memory) {
  (void)device;
  memory->total = 24ull << 30;
  const char* folder = getenv("FAKE_NVML_TAKEN");
  memory->used = folder != NULL ? taken_in(folder) : 0;
  memory->free = memory->used < memory->total ? memory->total - memory->used : 0;
  return NVML_SUCCESS;
}

nvmlReturn_t nvmlDeviceGetMigMode(nvmlDevice_t device, unsigned* current, unsigned* pending) {
  *current = *pending = number("FAKE_NVML_MIG", -1) == (int)index_of(device);
  return NVML_SUCCESS;
}

nvmlReturn_t nvmlSystemGetCudaDriverVersion(int* version) {
  *version = number("FAKE_NVML_CUDA", 13000);
  return NVML_SUCCESS;
}

nvmlReturn_t nvmlSystemGetDriverVersion(char* version, unsigned length) {
  snprintf(version, length, "460.106");
  return NVML_SUCCESS;
}
