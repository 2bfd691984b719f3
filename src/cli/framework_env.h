#pragma once

// The environment variables by which frameworks are told how to take memory. One table, used by
// `vram run --growth|--greedy|--profile` and printed by `vram env`.

#include <optional>
#include <string>
#include <vector>

#include "cli/settings.h"

namespace vram::cli {

enum class Framework : std::uint8_t { kTensorflow, kJax, kPytorch, kCupy, kOnnxruntime };
const char* name_of(Framework framework);
std::optional<Framework> parse_framework(const std::string& text);
std::vector<std::string> framework_names();

struct FrameworkVariable {
  Framework framework;
  const char* name;
  const char* value;
  // A newer name of the same variable. Where that is set, setting the older one too is an error or
  // has no effect.
  const char* newer_name = nullptr;
  // The variable holds a list of `key:value`; ours is added to what is there unless its key is.
  bool is_list = false;
};

// What the settings stand for. A profile decides what neither --growth nor --greedy decided.
std::vector<FrameworkVariable> framework_variables(std::optional<Preallocation> preallocation,
                                                   std::optional<Profile> profile);

// What a framework cannot be told by its environment, as sentences; one list a framework.
std::vector<std::string> framework_notes(Framework framework,
                                         std::optional<Preallocation> preallocation,
                                         std::optional<Profile> profile);

struct NameValue {
  std::string name, value;
};

// The variables as they should become in `environment`; those that stay as they are left out.
// `asked`: a setting from the command line wins over a variable that is set, others do not.
std::vector<NameValue> apply_framework_variables(const std::vector<FrameworkVariable>& variables,
                                                 const Environment& environment, Layer asked);

}  // namespace vram::cli
