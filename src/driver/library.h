#pragma once

// The real library behind a stand-in: found, loaded once, its governed functions noted and then
// redirected to ours. One stand-in library has exactly one of these, `library`, defined beside its
// handlers.
//
// Threads: load() may be called by any; the first loads, the others wait. A call from inside the
// load itself (a constructor of the real library) returns false.

#include <cstddef>
#include <cstdint>

#include "driver/redirect.h"

namespace vram::driver {

struct Row {
  const char* name;
  void** real;  // where the real function's address is kept
  void* ours;   // the handler; null: only called, not governed
};

// Room for a table of a stand-in, which asserts that it fits.
inline constexpr std::size_t kMaxRows = 512;

struct Library {
  const char* soname;           // "libcuda.so.1"
  const char* stem;             // "libcuda.so": what its other names begin with
  const char* (*configured)();  // an absolute path somebody chose, or null
  const Row* rows;
  std::size_t row_count;  // kMaxRows at most
  void* missing;          // what a stub leads to when the real library has no such function
};

// The one of this stand-in.
extern const Library library;

// Finds and loads the real library. False: there is none; see failure().
[[nodiscard]] bool load();
bool loaded();
bool opening();  // this thread is inside load() or open_real_again()

// After load(): whether its exports lead to ours. When they do not
// (its pages could not be changed), programs are given the stand-in instead of the real library.
bool redirected();

// After load(): one more handle of it, as a program gets it from dlopen with these flags. The call
// to dlopen it makes is not taken for a program's (see opening()).
void* open_real_again(int flags);
const char* failure();

// Is this a name (bare or with a path) of the library we stand in for?
bool stands_for(const char* file_name);

// The handler of a function the driver gave out, or the function itself when it is not governed.
void* governed(void* real_function);

// dlsym in the real library, for names that are not governed.
void* real_symbol(const char* name);

}  // namespace vram::driver
