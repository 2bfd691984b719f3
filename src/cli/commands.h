#pragma once

// The commands that show or change something and start nothing. Each prints to standard output.

#include "cli/failure.h"
#include "cli/options.h"

namespace vram::cli {

Result<Done> replay_traces(const ReplayOptions& options);
Result<Done> show_jobs(const PsOptions& options);
Result<Done> show_devices(const DevicesOptions& options);
Result<Done> change_limit(const LimitOptions& options);
Result<Done> park_jobs(const ParkOptions& options);
Result<Done> unpark_jobs(const ParkOptions& options);
Result<Done> show_framework_environment(const EnvOptions& options);
Result<Done> show_config(const ConfigOptions& options);
Result<Done> print_completion(const CompletionOptions& options, const CLI::App& root);

}  // namespace vram::cli
