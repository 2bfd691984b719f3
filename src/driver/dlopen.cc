// Answers a program's dlopen of the driver: by bare name, without the number, by absolute path.
//
// The program is given the real library, whose exports lead to our handlers (redirect.h). So
// functions that are not governed are the driver's own, one that this driver lacks is missing, and
// a function newer than this source is there.

#include "driver/dlopen.h"

#include <dlfcn.h>

#include <cstdint>

#include "driver/library.h"

extern "C" {

// Where dlopen_entry.S goes on to.
[[gnu::visibility("hidden")]] void* vram_next_dlopen = nullptr;
[[gnu::visibility("hidden")]] void* vram_next_dlmopen = nullptr;

struct Decision {
  void* handle;
  std::intptr_t decided;  // 0: not ours, ask the C library
};
[[gnu::visibility("hidden")]] Decision vram_decide_dlopen(const char* name, int flags);
[[gnu::visibility("hidden")]] Decision vram_decide_dlmopen(Lmid_t space, const char* name,
                                                           int flags);
}

namespace vram::driver {
namespace {

using Open = void* (*)(const char*, int);

void find_next() {
  if (vram_next_dlmopen != nullptr) return;
  vram_next_dlopen = dlsym(RTLD_NEXT, "dlopen");
  vram_next_dlmopen = dlsym(RTLD_NEXT, "dlmopen");
}

void* open_next(const char* name, int flags) {
  return reinterpret_cast<Open>(vram_next_dlopen)(name, flags);
}

Decision open_driver(int flags) {
  if ((flags & RTLD_NOLOAD) != 0 && !loaded()) return {nullptr, 1};
  // Without a driver the program gets the C library's own error for a file that is not there.
  if (!load()) return {open_next("/usr/lib/x86_64-linux-gnu/libcuda.so.1", flags), 1};
  return {open_real_again(flags & ~RTLD_DEEPBIND), 1};
}

Decision open_nvml(const char* name, int flags) {
  static decltype(&vram_nvml_open) other = nullptr;
  if (other == nullptr) {
    other = reinterpret_cast<decltype(other)>(dlsym(RTLD_DEFAULT, "vram_nvml_open"));
  }
  if (other == nullptr) return {nullptr, 0};
  int handled = 0;
  void* handle = other(name, flags, &handled);
  return {handle, handled};
}

}  // namespace
}  // namespace vram::driver

Decision vram_decide_dlopen(const char* name, int flags) {
  using namespace vram::driver;
  find_next();
  if (name == nullptr || opening()) return {nullptr, 0};
  if (stands_for(name)) return open_driver(flags);
  // A library bound deeply finds the C library's dlopen before ours. With the driver loaded and
  // redirected by now, what it may open under the driver's path leads to us all the same.
  if ((flags & RTLD_DEEPBIND) != 0) (void)load();
  return open_nvml(name, flags);
}

// A second copy of the driver in a namespace of its own would be out of reach; the caller gets the
// one there is.
Decision vram_decide_dlmopen(Lmid_t, const char* name, int flags) {
  using namespace vram::driver;
  find_next();
  if (name == nullptr || opening() || !stands_for(name)) return {nullptr, 0};
  return open_driver(flags);
}
