#pragma once

// A TOML file as a list of its entries, each with its place, so that whoever takes it can say where
// something is wrong. Whatever is in the file, it is read or refused with its place.

#include <cstdint>
#include <string>
#include <variant>
#include <vector>

#include "host/failure.h"

namespace vram::host {

struct TomlEntry {
  struct Table {};
  struct Other {};  // a date, a fraction, a list of anything but texts
  using Value = std::variant<Other, Table, std::string, std::int64_t, bool>;

  std::vector<std::string> tables;  // that it is in, the outermost first
  std::string key;
  Value value;
  std::string place;  // "FILE:LINE"
};

// In the order of the file's keys; a table comes before what is in it. A missing file is an error
// of its own, for to some that is an empty one.
struct TomlFile {
  bool missing = false;
  std::vector<TomlEntry> entries;
};
Result<TomlFile> read_toml(const std::string& path);

}  // namespace vram::host
