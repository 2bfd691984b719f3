// How many blocks of a kernel a multiprocessor holds, by the limits of the card that we simulate.
#pragma once

#include <cstddef>

#include "sim/module.h"

namespace vram::sim {

// 0 when one block is too large.
[[nodiscard]] int blocks_per_multiprocessor(const KernelInfo& info, int threads,
                                            size_t dynamic_shared_bytes);

}  // namespace vram::sim
