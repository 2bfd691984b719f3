// The real libnvidia-ml.so.1 as this stand-in knows it, and how a program's dlopen gets it.

#include <dlfcn.h>
#include <string.h>

#include "driver/dlopen.h"
#include "driver/library.h"
#include "driver/nvml_api.h"
#include "interpose/job.h"

namespace vram::driver {

RealNvml real_nvml{};

namespace {

const Row kRows[] = {
#define NVML_HOOK(symbol) \
  {#symbol, reinterpret_cast<void**>(&real_nvml.symbol), reinterpret_cast<void*>(&::symbol)},
#define NVML_CALL(symbol) {#symbol, reinterpret_cast<void**>(&real_nvml.symbol), nullptr},
#include "driver/hooks.def"
};
static_assert(sizeof kRows / sizeof kRows[0] <= kMaxRows);

// The library's one constructor.
[[gnu::constructor]] void at_load() {
  // A job without a file is the CUDA stand-in's; both must look at the same one.
  using Share = void* (*)();
  const auto share = reinterpret_cast<Share>(dlsym(RTLD_DEFAULT, "vram_shared_job"));
  void* shared = share == nullptr ? nullptr : share();
  if (shared != nullptr) {
    interpose::use_job(shared);
  } else {
    interpose::find_job();
  }
}

const char* configured() {
  const wire::Job* job = interpose::job();
  return job == nullptr || job->header.nvml_path[0] == '\0' ? nullptr : job->header.nvml_path;
}

nvmlReturn_t missing() {
  return loaded() ? NVML_ERROR_FUNCTION_NOT_FOUND : NVML_ERROR_LIBRARY_NOT_FOUND;
}

}  // namespace

const Library library = {"libnvidia-ml.so.1",
                         "libnvidia-ml.so",
                         configured,
                         kRows,
                         sizeof kRows / sizeof kRows[0],
                         reinterpret_cast<void*>(&missing)};

}  // namespace vram::driver

void* vram_nvml_open(const char* file_name, int flags, int* handled) {
  using namespace vram::driver;
  *handled = 0;
  if (opening() || !stands_for(file_name)) return nullptr;
  if ((flags & RTLD_NOLOAD) != 0 && !loaded()) {
    *handled = 1;
    return nullptr;
  }
  if (!load()) return nullptr;
  *handled = 1;
  // By the path it was loaded from, our own dlopen lets this call through: see opening().
  return open_real_again(flags & ~RTLD_DEEPBIND);
}

void* vram_nvml_real(const char* name) {
  using namespace vram::driver;
  if (!load()) return nullptr;
  for (const Row& row : kRows) {
    if (strcmp(row.name, name) == 0) return *row.real;
  }
  return real_symbol(name);
}
