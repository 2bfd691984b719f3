#pragma once

// The driver API with every version of every function, under its exported name. The one place that
// asks cuda.h for that: there, the unsuffixed cuMemAlloc is the function of CUDA 2, with 32-bit
// sizes.

#define __CUDA_API_VERSION_INTERNAL
#include <cuda.h>

// cuda.h declares few of the variants that use the per-thread default stream.
#define HOOK(symbol, prototype, since, family, charges, inverse) \
  extern "C" __attribute__((visibility("default"))) decltype(prototype) symbol;
#define CALL(symbol, prototype) extern "C" decltype(prototype) symbol;
#include "driver/hooks.def"
