#include "cli/settings_file.h"

#define TOML_EXCEPTIONS 0
#include <toml++/toml.h>

#include <cerrno>
#include <cstring>
#include <fstream>
#include <iterator>

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
                                 {"gpu", &SettingsFile::gpu},
                                 {"profile", &SettingsFile::profile},
                                 {"on_failure", &SettingsFile::on_failure},
                                 {"sim", &SettingsFile::sim}};
constexpr FlagKey kFlagKeys[] = {{"growth", &SettingsFile::growth},
                                 {"greedy", &SettingsFile::greedy},
                                 {"quiet", &SettingsFile::quiet}};

std::string known_keys() {
  std::string names;
  for (const TextKey& key : kTextKeys) names += (names.empty() ? "" : ", ") + std::string(key.name);
  for (const FlagKey& key : kFlagKeys) names += ", " + std::string(key.name);
  return names;
}

std::string place(const std::string& path, const toml::source_region& region) {
  return path + ":" + std::to_string(region.begin.line);
}

Result<Done> take(const std::string& path, const toml::key& key, const toml::node& node,
                  SettingsFile* out) {
  const std::string name(key.str());
  const std::string origin = place(path, key.source()) + ": " + name;
  for (const TextKey& known : kTextKeys) {
    if (name != known.name) continue;
    if (const auto text = node.value_exact<std::string>()) {
      out->*known.slot = FileValue{*text, origin};
      return Done{};
    }
    // A single card may be written as a number; a size may not, for it needs its unit.
    if (const auto number = node.value_exact<int64_t>(); number && name == "gpu") {
      out->*known.slot = FileValue{std::to_string(*number), origin};
      return Done{};
    }
    return Failure{origin + " must be a text in quotes, like " +
                   (name == "limit" ? "limit = \"4GiB\"" : name + " = \"...\"")};
  }
  for (const FlagKey& known : kFlagKeys) {
    if (name != known.name) continue;
    if (const auto value = node.value_exact<bool>()) {
      out->*known.slot = FileFlag{*value, origin};
      return Done{};
    }
    return Failure{origin + " must be true or false"};
  }
  return Failure{place(path, key.source()) + ": unknown key '" + name + "'; known are " +
                 known_keys()};
}

}  // namespace

Result<SettingsFile> read_settings_file(const std::string& path) {
  SettingsFile settings;
  if (path.empty()) return settings;
  std::ifstream file(path, std::ios::binary);
  if (!file) {
    if (errno == ENOENT || errno == ENOTDIR) return settings;
    return Failure{path + ": cannot be read (" + std::strerror(errno) +
                   "); correct its permissions or remove it"};
  }
  const std::string text(std::istreambuf_iterator<char>(file), {});
  if (file.bad()) return Failure{path + ": cannot be read; it must be a TOML file"};
  const toml::parse_result parsed = toml::parse(text);
  if (!parsed) {
    return Failure{place(path, parsed.error().source()) + ": " +
                   std::string(parsed.error().description()) + "; correct the file"};
  }
  for (const auto& [key, node] : parsed.table()) {
    if (const Result<Done> taken = take(path, key, node, &settings); !taken) return taken.error();
  }
  return settings;
}

}  // namespace vram::cli
