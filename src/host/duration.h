#pragma once

// Times as people write and read them.

#include <cstdint>
#include <string>

#include "host/failure.h"

namespace vram::host {

// "60s", "500ms", "1.5min", "1h"; from a millisecond to a day, in milliseconds. `source` is named
// in messages: "--timeout".
Result<std::uint64_t> parse_duration(const std::string& text, const std::string& source);

// "0.74s", "3.1ms".
std::string format_us(std::uint64_t us);

// "500ms", "90s", "10min", "4h": the largest unit of which it is a whole number. Can be typed back.
std::string format_ms(std::uint64_t ms);

// "4 h", "12 min", "3 s": how long something lasted, as people say it.
std::string say_ms(std::uint64_t ms);

}  // namespace vram::host
