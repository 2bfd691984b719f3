#pragma once

// What a person, a deployment file, a user's file and the administrator's file say, put in order:
// flag, then environment, then user file, then system file. The system file's limit is also a
// ceiling: the others may only go below it.

#include <functional>
#include <optional>
#include <string>

#include "cli/failure.h"
#include "host/limit_text.h"

namespace vram::cli {

using Environment = std::function<std::optional<std::string>(const std::string& name)>;
Environment real_environment();

enum class Preallocation : std::uint8_t { kGrowth, kGreedy };
enum class Profile : std::uint8_t { kShared, kServe, kTrain };
enum class OnFailure : std::uint8_t { kRefuse, kAllow };
// Who serves what a program allocates in stream order.
enum class Allocator : std::uint8_t { kDriver, kVram };
const char* name_of(Preallocation value);
const char* name_of(Profile value);
const char* name_of(OnFailure value);
const char* name_of(Allocator value);
Result<Profile> parse_profile(const std::string& text, const std::string& source);

// What the command line gave; absent: not given.
struct Flags {
  std::optional<std::string> limit, reserve, gpu, profile, on_failure, sim, alloc, park_after;
  bool elastic = false;
  bool no_park = false;
  bool wait = false;
  bool no_wait = false;
  bool growth = false;
  bool greedy = false;
  bool quiet = false;
};

enum class Layer : std::uint8_t { kDefault, kSystemFile, kUserFile, kEnvironment, kFlag };

template <typename T>
struct Setting {
  T value{};
  Layer layer = Layer::kDefault;
  std::string origin = "default";  // as messages name it: "-m", "VRAM_LIMIT", "FILE:LINE: limit"
};

struct Settings {
  Setting<Limit> limit;
  Setting<Limit> ceiling;  // empty: none
  Setting<Limit> reserve;  // empty: none; never without elastic
  Setting<std::optional<std::string>> gpu;
  Setting<std::optional<Preallocation>> preallocation;
  Setting<std::optional<Profile>> profile;
  Setting<Allocator> alloc;
  Setting<bool> elastic;                 // never together with Allocator::kDriver
  Setting<std::uint64_t> park_after_ms;  // 0: never
  Setting<bool> park{true};              // false: the daemon parks it for nobody
  Setting<bool> wait{true};              // until the job is admitted; false: be told at once
  Setting<OnFailure> on_failure;
  Setting<bool> quiet;
  Setting<std::optional<std::string>> sim;
};

struct SettingsFiles {
  std::string user;  // empty: none
  std::string system;
};
// $XDG_CONFIG_HOME/vram/config.toml or ~/.config/vram/config.toml, and /etc/vram/config.toml.
SettingsFiles settings_files(const Environment& environment);

Result<Settings> resolve_settings(const Flags& flags, const Environment& environment,
                                  const SettingsFiles& files);

// The administrator's ceiling alone; for commands that start nothing.
Result<Setting<Limit>> read_ceiling(const std::string& system_file);

}  // namespace vram::cli
