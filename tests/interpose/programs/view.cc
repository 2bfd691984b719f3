// view DRIVER_FOLDER LIMIT0 LIMIT1: what the program is shown of each card that it sees is its
// limit there (bytes; by NVML's order of cards), by every version of every call, and of all
// processes it is shown those of its job.
#include <dlfcn.h>
#include <nvml.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cstring>
#include <string>
#include <vector>

#include "program.h"

namespace {

template <typename Function>
Function* by_name(const char* library, const char* name) {
  void* const handle = dlopen(library, RTLD_NOW);
  CHECK(handle != nullptr);
  void* const function = dlsym(handle, name);
  CHECK(function != nullptr);
  return reinterpret_cast<Function*>(function);
}

std::string text_of(const CUuuid& uuid) {
  char text[64];
  const auto* b = reinterpret_cast<const unsigned char*>(uuid.bytes);
  std::snprintf(text, sizeof text,
                "GPU-%02x%02x%02x%02x-%02x%02x-%02x%02x-%02x%02x-%02x%02x%02x%02x%02x%02x", b[0],
                b[1], b[2], b[3], b[4], b[5], b[6], b[7], b[8], b[9], b[10], b[11], b[12], b[13],
                b[14], b[15]);
  return text;
}

unsigned narrow(std::size_t bytes) {
  return bytes > 0xffffffffu ? 0xffffffffu : static_cast<unsigned>(bytes);
}

void check_card(CUdevice ordinal, nvmlDevice_t card, std::size_t limit) {
  std::size_t total = 0;
  std::size_t free = 0;
  OK(cuDeviceTotalMem(&total, ordinal));
  CHECK_IS(total, limit);
  unsigned narrow_total = 0;
  unsigned narrow_free = 0;
  OK(by_name<CUresult(unsigned*, CUdevice)>("libcuda.so.1", "cuDeviceTotalMem")(&narrow_total,
                                                                                ordinal));
  CHECK_IS(narrow_total, narrow(limit));

  CUcontext context = nullptr;
  CUdeviceptr block = 0;
  OK(cuDevicePrimaryCtxRetain(&context, ordinal));
  OK(cuCtxSetCurrent(context));
  OK(cuMemAlloc(&block, 512 * kMiB));
  OK(cuMemGetInfo(&free, &total));
  CHECK_IS(total, limit);
  CHECK(free <= limit - 512 * kMiB - 500 * kMiB);
  OK(by_name<CUresult(unsigned*, unsigned*)>("libcuda.so.1", "cuMemGetInfo")(&narrow_free,
                                                                             &narrow_total));
  CHECK_IS(narrow_total, narrow(limit));
  CHECK_IS(narrow_free, narrow(free));

  nvmlMemory_t memory{};
  nvmlMemory_v2_t memory2{};
  memory2.version = nvmlMemory_v2;
  CHECK_IS(nvmlDeviceGetMemoryInfo(card, &memory), NVML_SUCCESS);
  CHECK_IS(nvmlDeviceGetMemoryInfo_v2(card, &memory2), NVML_SUCCESS);
  CHECK_IS(memory.total, limit);
  CHECK_IS(memory.free, free);
  CHECK_IS(memory.used + memory.free, limit);
  CHECK_IS(memory2.total, limit);
  CHECK_IS(memory2.free, free);
  CHECK_IS(memory2.used + memory2.free + memory2.reserved, limit);
  OK(cuMemFree(block));
}

template <typename Row>
void check_list(nvmlDevice_t card, const char* name, std::vector<unsigned> expected) {
  using List = nvmlReturn_t(nvmlDevice_t, unsigned*, Row*);
  List* const list = by_name<List>("libnvidia-ml.so.1", name);
  unsigned count = 0;
  CHECK_IS(list(card, &count, nullptr), NVML_ERROR_INSUFFICIENT_SIZE);
  CHECK_IS(count, expected.size());
  Row rows[16];
  count = 16;
  CHECK_IS(list(card, &count, rows), NVML_SUCCESS);
  std::vector<unsigned> found;
  for (unsigned i = 0; i < count; ++i) {
    found.push_back(rows[i].pid);
    CHECK(rows[i].usedGpuMemory >= 512 * kMiB);
  }
  std::sort(found.begin(), found.end());
  std::sort(expected.begin(), expected.end());
  CHECK(found == expected);
}

void check_details(nvmlDevice_t card, const std::vector<unsigned>& expected) {
  nvmlProcessDetailList_t list = {};
  nvmlProcessDetail_v1_t rows[16];
  list.version = nvmlProcessDetailList_v1;
  list.numProcArrayEntries = 16;
  list.procArray = rows;
  CHECK_IS(nvmlDeviceGetRunningProcessDetailList(card, &list), NVML_SUCCESS);
  CHECK_IS(list.numProcArrayEntries, expected.size());
  for (unsigned i = 0; i < list.numProcArrayEntries; ++i) {
    CHECK(std::count(expected.begin(), expected.end(), rows[i].pid) == 1);
  }
}

// A process that holds memory on the first card it sees. `environment` says whose it is.
pid_t start_holder(const std::vector<std::string>& environment, int* ready) {
  int ends[2] = {};
  CHECK_IS(pipe(ends), 0);
  std::vector<char*> variables;
  for (const std::string& one : environment) variables.push_back(const_cast<char*>(one.c_str()));
  variables.push_back(nullptr);
  char name[] = "view";
  char role[] = "hold";
  char* const line[] = {name, role, nullptr};
  const pid_t child = fork();
  if (child == 0) {
    dup2(ends[1], STDOUT_FILENO);
    execve("/proc/self/exe", line, variables.data());
    _exit(9);
  }
  close(ends[1]);
  *ready = ends[0];
  return child;
}

int hold() {
  CUdeviceptr block = 0;
  start();
  OK(cuMemAlloc(&block, 200 * kMiB));
  std::puts("ready");
  std::fflush(stdout);
  for (;;) pause();
}

void check_processes(const std::string& driver_folder) {
  std::vector<std::string> of_the_job;
  std::vector<std::string> of_somebody_else = {"LD_LIBRARY_PATH=" + driver_folder};
  for (char** one = environ; *one != nullptr; ++one) {
    const std::string variable = *one;
    of_the_job.push_back(variable);
    if (variable.rfind("VRAM_SIM", 0) == 0 || variable.rfind("CUDA_", 0) == 0) {
      of_somebody_else.push_back(variable);
    }
  }
  int ready[2] = {};
  const pid_t neighbour = start_holder(of_somebody_else, &ready[0]);
  const pid_t own = start_holder(of_the_job, &ready[1]);
  char byte = 0;
  for (const int end : ready) CHECK_IS(read(end, &byte, 1), 1);
  CUuuid uuid{};
  nvmlDevice_t card = nullptr;
  OK(cuDeviceGetUuid(&uuid, 0));
  CHECK_IS(nvmlDeviceGetHandleByUUID(text_of(uuid).c_str(), &card), NVML_SUCCESS);
  const std::vector<unsigned> expected = {static_cast<unsigned>(getpid()),
                                          static_cast<unsigned>(own)};
  check_list<nvmlProcessInfo_v1_t>(card, "nvmlDeviceGetComputeRunningProcesses", expected);
  check_list<nvmlProcessInfo_v2_t>(card, "nvmlDeviceGetComputeRunningProcesses_v2", expected);
  check_list<nvmlProcessInfo_t>(card, "nvmlDeviceGetComputeRunningProcesses_v3", expected);
  check_details(card, expected);
  for (const pid_t child : {neighbour, own}) {
    kill(child, SIGKILL);
    CHECK_IS(waitpid(child, nullptr, 0), child);
  }
}

}  // namespace

int main(int count, char** arguments) {
  if (count == 2) return hold();
  CHECK(count == 4);
  CHECK_IS(nvmlInit_v2(), NVML_SUCCESS);
  // Before the first call of CUDA, as nvidia-smi is.
  for (unsigned i = 0; i < 2; ++i) {
    const std::size_t limit = std::strtoull(arguments[2 + i], nullptr, 10);
    nvmlDevice_t card = nullptr;
    nvmlMemory_t memory{};
    CHECK_IS(nvmlDeviceGetHandleByIndex_v2(i, &card), NVML_SUCCESS);
    CHECK_IS(nvmlDeviceGetMemoryInfo(card, &memory), NVML_SUCCESS);
    if (limit != 0) CHECK_IS(memory.total, limit);
    if (limit != 0) CHECK_IS(memory.free, limit);
  }
  OK(cuInit(0));
  int seen = 0;
  OK(cuDeviceGetCount(&seen));
  for (CUdevice ordinal = 0; ordinal < seen; ++ordinal) {
    CUuuid uuid{};
    nvmlDevice_t card = nullptr;
    unsigned index = 0;
    OK(cuDeviceGetUuid(&uuid, ordinal));
    CHECK_IS(nvmlDeviceGetHandleByUUID(text_of(uuid).c_str(), &card), NVML_SUCCESS);
    CHECK_IS(nvmlDeviceGetIndex(card, &index), NVML_SUCCESS);
    std::printf("%d is card %u\n", ordinal, index);
    check_card(ordinal, card, std::strtoull(arguments[2 + index], nullptr, 10));
  }
  check_processes(arguments[1]);
}
