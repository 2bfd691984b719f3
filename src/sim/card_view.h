// Memory as work on the card sees it while it runs.
#pragma once

#include <cuda.h>

#include <cstddef>

namespace vram::sim {

// As host_view(), and besides what a pool holds behind blocks that are already freed: the free
// comes later in the stream than the work that asks here. Null: the card would fault.
[[nodiscard]] void* card_view(CUdeviceptr address, size_t bytes);

}  // namespace vram::sim
