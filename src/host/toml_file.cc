#include "host/toml_file.h"

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

namespace vram::host {
namespace {

std::string place(const std::string& path, const toml::source_region& region) {
  return path + ":" + std::to_string(region.begin.line);
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

TomlEntry::Value value_of(const toml::node& node) {
  if (node.is_table()) return TomlEntry::Table{};
  if (const auto text = node.value_exact<std::string>()) return *text;
  if (const auto number = node.value_exact<std::int64_t>()) return *number;
  if (const auto value = node.value_exact<bool>()) return *value;
  return TomlEntry::Other{};
}

void collect(const std::string& path, const toml::table& table,
             const std::vector<std::string>& tables, std::vector<TomlEntry>* out) {
  for (const auto& [key, node] : table) {
    const std::string name(key.str());
    out->push_back({tables, name, value_of(node), place(path, key.source())});
    if (const toml::table* inner = node.as_table()) {
      std::vector<std::string> deeper = tables;
      deeper.push_back(name);
      collect(path, *inner, deeper, out);
    }
  }
}

}  // namespace

Result<TomlFile> read_toml(const std::string& path) {
  TomlFile file;
  std::string text;
  if (const int error = read_text(path, &text); error != 0) {
    file.missing = error == ENOENT || error == ENOTDIR;
    if (file.missing) return file;
    return Failure{path + ": cannot be read (" + std::strerror(error) +
                   "); correct its permissions or remove it"};
  }
  mask_non_ascii(&text);
  try {
    collect(path, toml::parse(text), {}, &file.entries);
  } catch (const toml::parse_error& error) {
    return Failure{place(path, error.source()) + ": " + std::string(error.description()) +
                   "; correct the file"};
  } catch (const TomlAssertion&) {
    return Failure{path + ": is not TOML; correct the file"};
  }
  return file;
}

}  // namespace vram::host
