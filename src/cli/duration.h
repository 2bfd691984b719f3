#pragma once

// Times as people write and read them.

#include <cstdint>
#include <string>

#include "cli/failure.h"

namespace vram::cli {

// "60s", "500ms", "1.5min", "1h"; from a millisecond to a day, in milliseconds. `source` is named
// in messages: "--timeout".
Result<std::uint64_t> parse_duration(const std::string& text, const std::string& source);

// "0.74s", "3.1ms".
std::string format_us(std::uint64_t us);

}  // namespace vram::cli
