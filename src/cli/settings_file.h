#pragma once

// The TOML file of a user or of the system. An unknown key is an error, not a default: a misspelt
// limit would be no limit.

#include <optional>
#include <string>

#include "cli/failure.h"

namespace vram::cli {

struct FileValue {
  std::string text;
  std::string origin;  // "FILE:LINE: KEY"
};

struct FileFlag {
  bool value = false;
  std::string origin;
};

struct SettingsFile {
  std::optional<FileValue> limit, reserve, gpu, profile, alloc, park_after, on_failure, sim;
  std::optional<FileFlag> growth, greedy, elastic, park, wait, quiet;
};

// A missing file is an empty one.
Result<SettingsFile> read_settings_file(const std::string& path);

}  // namespace vram::cli
