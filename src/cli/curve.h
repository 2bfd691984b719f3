#pragma once

#include <string>
#include <vector>

#include "replay/replay.h"

namespace vram::cli {

enum class Colour : std::uint8_t { kNone, kSixteen };

// Memory over a replay as characters, a column a sample: '#' live, ':' reserved beyond that.
// `events`: written below its end.
std::string draw_curve(const std::vector<replay::Sample>& samples, std::uint64_t events,
                       Colour colour);

// Columns that draw_curve() has in a terminal of this width; 0: it is too narrow.
std::size_t curve_columns(std::size_t terminal_width);

// Of standard output: NO_COLOR and TERM are respected.
Colour terminal_colour();

}  // namespace vram::cli
