#pragma once

// The real driver's functions, typed. A slot is null until library.h's load() succeeded, and after
// it when the driver has no such function.

#include "driver/cuda_api.h"
#include "driver/library.h"

namespace vram::driver {

struct Real {
#define HOOK(symbol, prototype, since, family, charges, inverse) decltype(&::symbol) symbol;
#define CALL(symbol, prototype) decltype(&::symbol) symbol;
#include "driver/hooks.def"
};

extern Real real;

}  // namespace vram::driver
