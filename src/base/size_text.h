#pragma once

// Byte counts as people read them: "4GiB", "518MiB", "23.4GiB", "512B"; exact when whole, else one
// decimal. What it writes parse_size() reads. Nothing here allocates.

#include <cstdint>

namespace vram::base {

struct SizeText {
  char text[32];
};

[[nodiscard]] SizeText format_bytes(std::uint64_t bytes);

}  // namespace vram::base
