#pragma once

// The environment a governed program starts with.

#include <string>
#include <vector>

namespace vram::cli {

class ChildEnvironment {
 public:
  // Begins with what this process has.
  ChildEnvironment();
  explicit ChildEnvironment(std::vector<std::string> variables)
      : variables_(std::move(variables)) {}

  void set(const std::string& name, const std::string& value);
  // Puts `libraries` first in LD_PRELOAD, once, and keeps what else is there.
  void preload(const std::vector<std::string>& libraries);

  // Puts `folder` first in LD_LIBRARY_PATH.
  void search_first(const std::string& folder);

  // Empty when it is not set.
  std::string get(const std::string& name) const;

  const std::vector<std::string>& variables() const { return variables_; }

 private:
  std::vector<std::string> variables_;  // NAME=VALUE
};

}  // namespace vram::cli
