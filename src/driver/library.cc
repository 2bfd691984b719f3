#include "driver/library.h"

#include <dlfcn.h>
#include <errno.h>
#include <limits.h>
#include <link.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <atomic>

extern "C" {
[[gnu::visibility("hidden")]] extern const std::uint32_t vram_stub_count;
[[gnu::visibility("hidden")]] extern const std::int32_t vram_stub_name_offsets[];
[[gnu::visibility("hidden")]] extern void* vram_stub_slots[];
[[gnu::visibility("hidden")]] void* vram_find_stub(std::uint32_t index);
}

namespace vram::driver {
namespace {

struct State {
  std::atomic<int> outcome{0};  // 0 not tried, 1 loaded, 2 failed
  void* real = nullptr;         // dlopen's handle of the real library
  void* visible = nullptr;      // what a program is given: the real one once it is redirected
  char path[PATH_MAX] = "";
  char failure[PATH_MAX + 128] = "";
  Redirect redirects[kMaxRows] = {};
  std::size_t redirect_count = 0;
};

State state;
pthread_once_t once = PTHREAD_ONCE_INIT;
thread_local bool loading = false;

bool is_this_file(const char* candidate) {
  Dl_info self{};
  struct stat a {};
  struct stat b {};
  if (dladdr(reinterpret_cast<void*>(&is_this_file), &self) == 0) return false;
  if (stat(self.dli_fname, &a) != 0 || stat(candidate, &b) != 0) return false;
  return a.st_dev == b.st_dev && a.st_ino == b.st_ino;
}

bool open_at(const char* candidate) {
  if (access(candidate, R_OK) != 0 || is_this_file(candidate)) return false;
  void* opened = dlopen(candidate, RTLD_NOW | RTLD_LOCAL);
  if (opened == nullptr) {
    snprintf(state.failure, sizeof state.failure, "%s", dlerror());
    return false;
  }
  state.real = opened;
  snprintf(state.path, sizeof state.path, "%s", candidate);
  return true;
}

bool open_in_list(const char* folders) {
  while (folders != nullptr && *folders != '\0') {
    const char* end = strchrnul(folders, ':');
    char candidate[PATH_MAX];
    snprintf(candidate, sizeof candidate, "%.*s/%s", static_cast<int>(end - folders), folders,
             library.soname);
    if (open_at(candidate)) return true;
    folders = *end == ':' ? end + 1 : end;
  }
  return false;
}

// Where the loader would look, plus where NVIDIA's container runtime and WSL put the driver. The
// loader's own search is of no use: it knows our stand-in by the same name.
bool open_real() {
  const char* chosen = library.configured();
  if (chosen != nullptr) return open_at(chosen);
  return open_in_list(getenv("LD_LIBRARY_PATH")) ||
         open_in_list(
             "/usr/lib/x86_64-linux-gnu:/lib/x86_64-linux-gnu:/usr/lib64:/lib64:/usr/lib:"
             "/usr/local/nvidia/lib64:/usr/local/nvidia/lib:/usr/lib/wsl/lib:"
             "/run/opengl-driver/lib");
}

void note_functions() {
  // A child forked while another thread was here begins again.
  state.redirect_count = 0;
  for (std::size_t i = 0; i < library.row_count; ++i) {
    const Row& row = library.rows[i];
    *row.real = dlsym(state.real, row.name);
    if (row.ours == nullptr) continue;
    state.redirects[state.redirect_count++] = {reinterpret_cast<std::uintptr_t>(*row.real),
                                               reinterpret_cast<std::uintptr_t>(row.ours)};
  }
}

void load_once() {
  loading = true;
  state.failure[0] = '\0';
  int outcome = 2;
  if (open_real()) {
    note_functions();
    // When the table cannot be changed, whoever asks for the library is given the stand-in instead
    // of the real one (see redirected()), which covers every road but an absolute path past dlopen.
    const bool redirected = redirect_exports(state.real, state.redirects, state.redirect_count);
    state.visible = redirected ? state.real : dlopen(library.soname, RTLD_NOW | RTLD_NOLOAD);
    outcome = 1;
  } else if (state.failure[0] == '\0') {
    snprintf(state.failure, sizeof state.failure, "%s was not found", library.soname);
  }
  state.outcome.store(outcome, std::memory_order_release);
  loading = false;
}

}  // namespace

bool load() {
  if (state.outcome.load(std::memory_order_acquire) == 0) {
    if (loading) return false;
    // The program's call that leads here leaves errno as it is.
    const int saved = errno;
    pthread_once(&once, load_once);
    errno = saved;
  }
  return state.outcome.load(std::memory_order_acquire) == 1;
}

bool loaded() { return state.outcome.load(std::memory_order_acquire) == 1; }
bool redirected() { return state.visible == state.real; }
bool opening() { return loading; }
void* open_real_again(int flags) {
  const bool outer = loading;
  loading = true;
  void* handle = dlopen(redirected() ? state.path : library.soname, flags);
  loading = outer;
  return handle;
}

const char* failure() { return state.failure; }

bool stands_for(const char* file_name) {
  const char* slash = strrchr(file_name, '/');
  const char* base = slash == nullptr ? file_name : slash + 1;
  const std::size_t length = strlen(library.stem);
  if (strncmp(base, library.stem, length) != 0) return false;
  return base[length] == '\0' || base[length] == '.';
}

void* governed(void* real_function) {
  const auto address = reinterpret_cast<std::uintptr_t>(real_function);
  for (std::size_t i = 0; i < state.redirect_count; ++i) {
    if (state.redirects[i].from == address && address != 0) {
      return reinterpret_cast<void*>(state.redirects[i].to);
    }
  }
  return real_function;
}

void* real_symbol(const char* name) { return dlsym(state.real, name); }

}  // namespace vram::driver

void* vram_find_stub(std::uint32_t index) {
  const char* name =
      reinterpret_cast<const char*>(vram_stub_name_offsets) + vram_stub_name_offsets[index];
  void* function = vram::driver::load() ? vram::driver::real_symbol(name) : nullptr;
  if (function == nullptr) return vram::driver::library.missing;
  __atomic_store_n(&vram_stub_slots[index], function, __ATOMIC_RELEASE);
  return function;
}
