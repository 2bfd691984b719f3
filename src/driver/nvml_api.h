#pragma once

// NVML with every version of every function under its exported name, and the real one's functions,
// typed; see real.h.

#define NVML_NO_UNVERSIONED_FUNC_DEFS
#include <nvml.h>

#include "driver/library.h"

#define NVML_HOOK(symbol) \
  extern "C" __attribute__((visibility("default"))) decltype(::symbol) symbol;
#include "driver/hooks.def"

namespace vram::driver {

struct RealNvml {
#define NVML_HOOK(symbol) decltype(&::symbol) symbol;
#define NVML_CALL(symbol) decltype(&::symbol) symbol;
#include "driver/hooks.def"
};

extern RealNvml real_nvml;

}  // namespace vram::driver
