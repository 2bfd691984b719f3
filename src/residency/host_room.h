#pragma once

#include <cstdint>

namespace vram::residency {

// Bytes of memory that this process may take from the host without bringing it, or the control
// group that the process is in, near its end: what is available, less a tenth of all there is. 0
// when nobody tells.
std::uint64_t host_room();

}  // namespace vram::residency
