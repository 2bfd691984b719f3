#include "config/device_name.h"

#include <charconv>

namespace vram::config {
namespace {

bool take(std::string_view* text, std::string_view prefix) {
  if (text->substr(0, prefix.size()) != prefix) return false;
  text->remove_prefix(prefix.size());
  return true;
}

}  // namespace

std::optional<DeviceName> parse_device_name(std::string_view name) {
  if (!take(&name, "/device:") && !name.empty() && name.front() == '/') name.remove_prefix(1);
  DeviceName parsed;
  if (take(&name, "GPU") || take(&name, "gpu")) {
    parsed.type = "GPU";
  } else if (take(&name, "CPU") || take(&name, "cpu")) {
    parsed.type = "CPU";
  } else {
    return {};
  }
  if (name.empty()) return parsed;
  if (!take(&name, ":") || name.empty()) return {};
  int index = 0;
  const auto [end, error] = std::from_chars(name.data(), name.data() + name.size(), index);
  if (error != std::errc() || end != name.data() + name.size() || index < 0) return {};
  parsed.index = index;
  return parsed;
}

}  // namespace vram::config
