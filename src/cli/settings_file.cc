#include "cli/settings_file.h"

// On some malformed input ("[" and a line's end suffice) toml++ runs into its own assertions, which
// are undefined behaviour in a release build. Here they are checked in every build, and the first
// that fails ends the reading.
#undef NDEBUG
namespace {
struct TomlAssertion {};
[[noreturn]] void fail_toml_assertion() { throw TomlAssertion(); }
}  // namespace
#define TOML_ASSERT(condition) ((condition) ? void() : fail_toml_assertion())
#define TOML_EXCEPTIONS 1
#include <toml++/toml.h>

#include <fcntl.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>

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

constexpr TextKey kTextKeys[] = {
    {"limit", &SettingsFile::limit},           {"gpu", &SettingsFile::gpu},
    {"profile", &SettingsFile::profile},       {"alloc", &SettingsFile::alloc},
    {"on_failure", &SettingsFile::on_failure}, {"sim", &SettingsFile::sim}};
constexpr FlagKey kFlagKeys[] = {{"growth", &SettingsFile::growth},
                                 {"greedy", &SettingsFile::greedy},
                                 {"elastic", &SettingsFile::elastic},
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

// 0, or an error number.
int read_text(const std::string& path, std::string* text) {
  const int fd = open(path.c_str(), O_RDONLY | O_CLOEXEC);
  if (fd < 0) return errno;
  char buffer[4096];
  ssize_t got = 0;
  while ((got = read(fd, buffer, sizeof buffer)) > 0)
    text->append(buffer, static_cast<std::size_t>(got));
  const int error = got < 0 ? errno : 0;
  close(fd);
  return error;
}

// No value of ours has a character outside of ASCII, and toml++ 3.3 runs into undefined behaviour
// on some of them between tokens. Lines and columns stay the same.
void mask_non_ascii(std::string* text) {
  if (text->compare(0, 3, "\xEF\xBB\xBF") == 0) text->erase(0, 3);  // the mark of UTF-8 editors
  for (char& c : *text) {
    if (static_cast<unsigned char>(c) >= 0x80) c = '?';
  }
}

}  // namespace

Result<SettingsFile> read_settings_file(const std::string& path) {
  SettingsFile settings;
  if (path.empty()) return settings;
  std::string text;
  if (const int error = read_text(path, &text); error != 0) {
    if (error == ENOENT || error == ENOTDIR) return settings;
    return Failure{path + ": cannot be read (" + std::strerror(error) +
                   "); correct its permissions or remove it"};
  }
  mask_non_ascii(&text);
  toml::table parsed;
  try {
    parsed = toml::parse(text);
  } catch (const toml::parse_error& error) {
    return Failure{place(path, error.source()) + ": " + std::string(error.description()) +
                   "; correct the file"};
  } catch (const TomlAssertion&) {
    return Failure{path + ": is not TOML; correct the file"};
  }
  for (const auto& [key, node] : parsed) {
    if (const Result<Done> taken = take(path, key, node, &settings); !taken) return taken.error();
  }
  return settings;
}

}  // namespace vram::cli
