// The management library in this process: initialised or not, and the machine it looks at. It shows
// all cards, whatever CUDA_VISIBLE_DEVICES says, as the real one does.
#pragma once

#include <nvml.h>

#include "sim/machine.h"

namespace vram::sim {

struct CardHandle {
  int card = 0;
};

// NVML_ERROR_UNINITIALIZED outside of nvmlInit and the last nvmlShutdown.
[[nodiscard]] nvmlReturn_t find_machine(Machine** out);

// As above, then NVML_ERROR_INVALID_ARGUMENT for what is no handle.
[[nodiscard]] nvmlReturn_t find_card(nvmlDevice_t handle, Machine** machine, int* card);

[[nodiscard]] nvmlDevice_t card_handle(int card);

// NVML_ERROR_INSUFFICIENT_SIZE when the text and its end do not fit.
[[nodiscard]] nvmlReturn_t copy_text(const char* text, char* out, unsigned length);

}  // namespace vram::sim
