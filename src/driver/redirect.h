#pragma once

// Turns a loaded library's exported functions into ours, for every later lookup by whatever road:
// dlsym, dlvsym, linking, RTLD_DEEPBIND, a handle from an absolute path.
//
// The loader finds a function through the library's own dynamic symbol table. We change the values
// in that table, in this process's private copy of its pages. Nothing of the library's code is
// touched, and calls inside it stay as they are.

#include <cstddef>
#include <cstdint>

namespace vram::driver {

struct Redirect {
  std::uintptr_t from;  // the function in the library; 0: it has none, skip
  std::uintptr_t to;    // ours
};

// `handle` is dlopen's. False: the table could not be found or made writable; nothing is changed.
// Not safe against a concurrent lookup in the same library: call before anybody else has a handle.
[[nodiscard]] bool redirect_exports(void* handle, const Redirect* rows, std::size_t count);

}  // namespace vram::driver
