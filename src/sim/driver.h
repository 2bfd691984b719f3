// The driver in this process: initialised or not, its machine, and the cards it shows.
//
// Model. cuInit makes or joins the machine and reads CUDA_VISIBLE_DEVICES; both are fixed from then
// on. A device is an ordinal of this process, a card one of the machine. After a fork the child has
// no driver, as on a real system: every call answers CUDA_ERROR_NOT_INITIALIZED.
#pragma once

#include <cuda.h>

#include <string>
#include <vector>

#include "sim/machine.h"

namespace vram::sim {

struct Driver {
  Machine* machine = nullptr;
  std::vector<int> cards;  // device -> card
};

// cuInit. Idempotent; a failure is repeated by the next call, for the environment may have changed.
[[nodiscard]] CUresult initialise_driver();

// Only after a successful cuInit in this process.
[[nodiscard]] Driver& driver();
[[nodiscard]] inline int card_of(int device) { return driver().cards[device]; }
[[nodiscard]] inline int device_count() { return static_cast<int>(driver().cards.size()); }

// The cards that `list`, the value of CUDA_VISIBLE_DEVICES, leaves visible, in its order: indices
// or prefixes of "GPU-…" that name one card; the first entry that names none ends the list, and an
// entry that names a card again leaves nothing visible. Null means all.
[[nodiscard]] std::vector<int> visible_cards(const char* list, const std::string& machine,
                                             int card_count);

}  // namespace vram::sim
