// Making and ending contexts: what the entry points of the context family need beyond context.h.
#pragma once

#include <cuda.h>

#include <cstddef>
#include <vector>

#include "sim/context.h"

namespace vram::sim {

// CUDA_ERROR_OUT_OF_MEMORY when the card has no room for the context itself.
[[nodiscard]] CUresult create_context(int device, unsigned flags, unsigned api_version,
                                      Context** out);
// Takes it off the calling thread's stack if it is on top. CUDA_ERROR_INVALID_CONTEXT for a
// primary or a green one.
[[nodiscard]] CUresult destroy_context(Context& context);

[[nodiscard]] CUresult retain_primary(int device, Context** out);
// CUDA_ERROR_INVALID_CONTEXT when it is not retained. The last release ends the context.
[[nodiscard]] CUresult release_primary(int device);
// Ends the context; those who have retained it still release it.
[[nodiscard]] CUresult reset_primary(int device);
[[nodiscard]] CUresult set_primary_flags(int device, unsigned flags);
[[nodiscard]] unsigned primary_flags(int device);

// The calling thread's.
[[nodiscard]] std::vector<Context*>& context_stack();

// Retains the primary context of the device, and releases it.
[[nodiscard]] CUresult create_green(int device, Context** out);
[[nodiscard]] CUresult destroy_green(Context& context);

// Makes the card keep exactly so much local memory for every resident thread.
[[nodiscard]] CUresult set_local_memory(Context& context, size_t bytes_per_thread);

}  // namespace vram::sim
