#include "cli/child_env.h"

#include <unistd.h>

#include <algorithm>

namespace vram::cli {

ChildEnvironment::ChildEnvironment() {
  for (char** variable = environ; variable != nullptr && *variable != nullptr; ++variable) {
    variables_.emplace_back(*variable);
  }
}

std::string ChildEnvironment::get(const std::string& name) const {
  const std::string start = name + "=";
  for (const std::string& variable : variables_) {
    if (variable.compare(0, start.size(), start) == 0) return variable.substr(start.size());
  }
  return "";
}

void ChildEnvironment::set(const std::string& name, const std::string& value) {
  const std::string start = name + "=";
  const auto same = [&](const std::string& variable) {
    return variable.compare(0, start.size(), start) == 0;
  };
  variables_.erase(std::remove_if(variables_.begin(), variables_.end(), same), variables_.end());
  variables_.push_back(start + value);
}

void ChildEnvironment::preload(const std::vector<std::string>& libraries) {
  std::string value;
  for (const std::string& library : libraries) value += (value.empty() ? "" : ":") + library;
  const std::string before = get("LD_PRELOAD");
  // The linker takes colons and spaces as separators.
  std::size_t from = 0;
  while (from < before.size()) {
    const std::size_t to = std::min(before.find_first_of(": ", from), before.size());
    const std::string entry = before.substr(from, to - from);
    from = to + 1;
    if (entry.empty()) continue;
    if (std::find(libraries.begin(), libraries.end(), entry) == libraries.end())
      value += ":" + entry;
  }
  set("LD_PRELOAD", value);
}

void ChildEnvironment::search_first(const std::string& folder) {
  const std::string before = get("LD_LIBRARY_PATH");
  // An empty entry would be the current folder.
  set("LD_LIBRARY_PATH", before.empty() ? folder : folder + ":" + before);
}

}  // namespace vram::cli
