// The handles of green contexts, and what each is a part of.
//
// Model. A green context is a Context of its own (sim/context.h) and costs what a context costs.
// Its handle is good for ever, as a context's is. Multiprocessors are told, not kept apart: two
// green contexts may have the same ones.
//
// Threads: any.
#pragma once

#include <cuda.h>

#include "sim/context.h"
#include "sim/device_resource.h"

namespace vram::sim {

struct GreenContext {
  Context* context = nullptr;
  Description part;
};

[[nodiscard]] CUresult make_green(const Description& part, CUgreenCtx* out);
// CUDA_ERROR_INVALID_CONTEXT when it is none, CUDA_ERROR_CONTEXT_IS_DESTROYED when it is gone.
[[nodiscard]] CUresult find_green(CUgreenCtx handle, GreenContext* out);
// The handle of a context that is green, null for any other.
[[nodiscard]] CUgreenCtx green_handle_of(const Context& context);
// What a context has of its device.
[[nodiscard]] CUdevResource part_of(const Context& context);

}  // namespace vram::sim
