#include "cli/settings_file.h"

#include "host/toml_file.h"

namespace vram::cli {
namespace {

struct TextKey {
  const char* name;
  std::optional<FileValue> SettingsFile::*slot;
};
struct FlagKey {
  const char* name;
  std::optional<FileFlag> SettingsFile::*slot;
};

constexpr TextKey kTextKeys[] = {{"limit", &SettingsFile::limit},
                                 {"reserve", &SettingsFile::reserve},
                                 {"gpu", &SettingsFile::gpu},
                                 {"profile", &SettingsFile::profile},
                                 {"alloc", &SettingsFile::alloc},
                                 {"park_after", &SettingsFile::park_after},
                                 {"on_failure", &SettingsFile::on_failure},
                                 {"sim", &SettingsFile::sim}};
constexpr FlagKey kFlagKeys[] = {
    {"growth", &SettingsFile::growth},   {"greedy", &SettingsFile::greedy},
    {"elastic", &SettingsFile::elastic}, {"park", &SettingsFile::park},
    {"wait", &SettingsFile::wait},       {"quiet", &SettingsFile::quiet}};

std::string known_keys() {
  std::string names;
  for (const TextKey& key : kTextKeys) names += (names.empty() ? "" : ", ") + std::string(key.name);
  for (const FlagKey& key : kFlagKeys) names += ", " + std::string(key.name);
  return names;
}

std::string example(const std::string& name) {
  if (name == "limit" || name == "reserve") return name + " = \"4GiB\"";
  return name + " = \"...\"";
}

Result<Done> take(const TomlEntry& entry, SettingsFile* out) {
  const std::string origin = entry.place + ": " + entry.key;
  for (const TextKey& known : kTextKeys) {
    if (entry.key != known.name) continue;
    if (const auto* text = std::get_if<std::string>(&entry.value)) {
      out->*known.slot = FileValue{*text, origin};
      return Done{};
    }
    // A single card may be written as a number; a size may not, for it needs its unit.
    if (const auto* number = std::get_if<std::int64_t>(&entry.value);
        number != nullptr && entry.key == "gpu") {
      out->*known.slot = FileValue{std::to_string(*number), origin};
      return Done{};
    }
    return Failure{origin + " must be a text in quotes, like " + example(entry.key)};
  }
  for (const FlagKey& known : kFlagKeys) {
    if (entry.key != known.name) continue;
    if (const auto* value = std::get_if<bool>(&entry.value)) {
      out->*known.slot = FileFlag{*value, origin};
      return Done{};
    }
    return Failure{origin + " must be true or false"};
  }
  return Failure{entry.place + ": unknown key '" + entry.key + "'; known are " + known_keys()};
}

}  // namespace

Result<SettingsFile> read_settings_file(const std::string& path) {
  SettingsFile settings;
  if (path.empty()) return settings;
  const Result<TomlFile> file = read_toml(path);
  if (!file) return file.error();
  for (const TomlEntry& entry : file->entries) {
    // What is in a table is no setting, and the table itself was refused.
    if (const Result<Done> taken = take(entry, &settings); !taken) return taken.error();
  }
  return settings;
}

}  // namespace vram::cli
