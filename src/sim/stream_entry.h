// How an entry point that takes a stream begins, and how its two variants are written down.
//
// Every such function of CUDA is exported twice: `name` takes stream 0 for the legacy default
// stream, `name_ptsz` (or `name_ptds`, where the stream is implied) for the calling thread's own.
#pragma once

#include <cuda.h>

#include <memory>

#include "sim/context.h"
#include "sim/entry.h"
#include "sim/stream.h"

namespace vram::sim {

// The thread's context, when it may be used now: CUDA_ERROR_NOT_PERMITTED in a host function, the
// context's own error when it has one.
[[nodiscard]] CUresult require_usable_context(Context** out);

// As above, then the stream that the handle means.
[[nodiscard]] CUresult require_stream(CUstream handle, DefaultStream meaning,
                                      std::shared_ptr<Stream>* out);

}  // namespace vram::sim

#define VRAM_SIM_ARGUMENTS(...) __VA_ARGS__

// Defines `name` and `name##suffix` with the given parameter list; both call
// implementation(DefaultStream, arguments...).
#define VRAM_SIM_BOTH(name, suffix, implementation, parameters, arguments)                       \
  CUresult name parameters {                                                                     \
    VRAM_SIM_ENTER();                                                                            \
    return implementation(::vram::sim::DefaultStream::kLegacy, VRAM_SIM_ARGUMENTS arguments);    \
  }                                                                                              \
  CUresult name##suffix parameters {                                                             \
    VRAM_SIM_ENTER();                                                                            \
    return implementation(::vram::sim::DefaultStream::kPerThread, VRAM_SIM_ARGUMENTS arguments); \
  }

// Defines `name` alone.
#define VRAM_SIM_ONE(name, implementation, parameters, arguments) \
  CUresult name parameters {                                      \
    VRAM_SIM_ENTER();                                             \
    return implementation(VRAM_SIM_ARGUMENTS arguments);          \
  }
