// Injected costs: VRAM_SIM_COSTS makes calls take the time they take on real hardware.
//
// "h200" chooses the built-in table (medians measured on that card); anything else is a file of
// lines `name nanoseconds [picoseconds-per-byte]`, `#` starting a comment. Off by default. The
// calling thread spins, for a sleep is too coarse for these figures.
#pragma once

#include <cstddef>
#include <cstdint>

namespace vram::sim {

struct Cost {
  uint64_t fixed_ns = 0;
  uint64_t per_byte_ps = 0;
};

// The cost of a call by exported symbol; zeros when costs are off or the call has none.
[[nodiscard]] Cost cost_of(const char* name);

void spend_ns(uint64_t ns);

// The part of a cost that grows with the bytes; for entry points that know theirs.
void spend_bytes(const char* name, size_t bytes);

}  // namespace vram::sim
