#pragma once

// Asks the daemon to admit a new job: whether its reserve fits, and what the policy gives its user.

#include "cli/failure.h"
#include "cli/job.h"
#include "cli/settings.h"

namespace vram::cli {

// Returns when the job may begin. Without a daemon it may, too, unless a reserve was asked for,
// which nobody keeps then: that is a failure, or a warning with --on-failure allow.
Result<Done> be_admitted(const Settings& settings, const JobFile& job);

}  // namespace vram::cli
