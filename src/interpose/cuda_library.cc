// The real libcuda.so.1 as this stand-in knows it: one row for each line of hooks.def.

#include "driver/library.h"
#include "driver/real.h"
#include "interpose/job.h"
#include "interpose/process.h"
#include "interpose/trace.h"

namespace vram::driver {

Real real{};

namespace {

const Row kRows[] = {
#define HOOK(symbol, prototype, since, family, charges, inverse) \
  {#symbol, reinterpret_cast<void**>(&real.symbol), reinterpret_cast<void*>(&::symbol)},
#define CALL(symbol, prototype) {#symbol, reinterpret_cast<void**>(&real.symbol), nullptr},
#include "driver/hooks.def"
};
static_assert(sizeof kRows / sizeof kRows[0] <= kMaxRows);

// The library's one constructor.
[[gnu::constructor]] void at_load() {
  interpose::wipe_on_fork();
  interpose::find_job();
  interpose::find_trace();
}

const char* configured() {
  const wire::Job* job = interpose::job();
  return job == nullptr || job->header.driver_path[0] == '\0' ? nullptr : job->header.driver_path;
}

// What a linked program gets from a function that this driver does not have.
CUresult missing() { return loaded() ? CUDA_ERROR_NOT_SUPPORTED : CUDA_ERROR_NO_DEVICE; }

}  // namespace

const Library library = {"libcuda.so.1",
                         "libcuda.so",
                         configured,
                         kRows,
                         sizeof kRows / sizeof kRows[0],
                         reinterpret_cast<void*>(&missing)};

}  // namespace vram::driver

// For NVML's stand-in. It may be loaded, and ask, before our constructor has run.
extern "C" __attribute__((visibility("default"))) void* vram_shared_job() {
  if (vram::interpose::job() == nullptr) vram::interpose::find_job();
  return vram::interpose::job();
}
