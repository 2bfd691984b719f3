#pragma once

// What a policy means for the jobs there are, in words.

#include <string>

#include "daemon/admission.h"
#include "daemon/sight.h"

namespace vram::daemon {

std::string describe(const Sight& sight, const Policy& policy, const StandingOf& standing_of);

}  // namespace vram::daemon
