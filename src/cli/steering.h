#pragma once

// Frameworks that keep a pool of their own ask the driver for large pieces and hand out parts of
// them, so that nobody outside sees what a tensor takes. Each of these has an allocator that asks
// the driver for every block instead, stream-ordered; here is how they are turned to it.
// docs/user/frameworks.md has the table.

#include <string>
#include <vector>

#include "cli/child_env.h"
#include "cli/settings.h"

namespace vram::cli {

// `user`: the environment as the user has it; what is set there stays. In `child`, the program's
// environment, variables are set; what a preset put there is replaced, lists are added to. Returns
// a sentence for each variable that the user set to something else.
std::vector<std::string> steer(const Environment& user, ChildEnvironment* child);

}  // namespace vram::cli
