#pragma once

// The command speaks of the host everywhere: how it reports what went wrong, of jobs, cards, sizes
// and times.

#include "host/failure.h"

namespace vram::cli {
using namespace host;
}  // namespace vram::cli
