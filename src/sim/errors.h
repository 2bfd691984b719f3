// Names and descriptions of CUresult; generated at build time, sorted by value.
#pragma once

#include <cstddef>

namespace vram::sim {

struct ErrorRow {
  int value;
  const char* name;
  const char* words;
};

extern const ErrorRow kErrors[];
extern const size_t kErrorCount;

}  // namespace vram::sim
