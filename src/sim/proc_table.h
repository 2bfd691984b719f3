// What cuGetProcAddress knows; generated at build time, sorted by name, version, variant.
#pragma once

#include <cstddef>

namespace vram::sim {

struct ProcRow {
  const char* name;  // without suffix
  int version;       // from which the symbol is the current one, as in CUDA_VERSION
  bool per_thread;   // the _ptds or _ptsz variant
  void (*symbol)();
};

extern const ProcRow kProcTable[];
extern const size_t kProcTableSize;

}  // namespace vram::sim
