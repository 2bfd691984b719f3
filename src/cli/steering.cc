#include "cli/steering.h"

#include <algorithm>
#include <array>

#include "cli/framework_env.h"

namespace vram::cli {
namespace {

// CuPy, ONNX Runtime and programs with pools of their own have no variable for this.
constexpr std::array kVariables = {
    FrameworkVariable{Framework::kPytorch, "PYTORCH_CUDA_ALLOC_CONF", "backend:cudaMallocAsync",
                      "PYTORCH_ALLOC_CONF", true},
    FrameworkVariable{Framework::kJax, "XLA_PYTHON_CLIENT_ALLOCATOR", "cuda_async"},
    // Its pool takes nothing ahead of use, so that what it reserves is what is asked for.
    FrameworkVariable{Framework::kJax, "XLA_PYTHON_CLIENT_PREALLOCATE", "false"},
    FrameworkVariable{Framework::kTensorflow, "TF_GPU_ALLOCATOR", "cuda_malloc_async"},
};

// The value of an entry's key in a list of `key:value`; empty when it is not there.
std::string entry_of(const std::string& list, const std::string& entry) {
  const std::string key = entry.substr(0, entry.find(':') + 1);
  for (std::size_t from = 0; from <= list.size();) {
    const std::size_t to = std::min(list.find(',', from), list.size());
    std::string item = list.substr(from, to - from);
    item.erase(0, item.find_first_not_of(' '));
    if (item.compare(0, key.size(), key) == 0) return item;
    from = to + 1;
  }
  return "";
}

std::string stays(const FrameworkVariable& variable, const std::string& name,
                  const std::string& value) {
  return name + " is set to " + value + " and stays, so " + name_of(variable.framework) +
         " may keep a pool of its own; with " + variable.value +
         " the driver is asked for every block";
}

// Under which names a variable is to be set: those that the user set, else the one that every
// release knows. Where there are two names, which one is read depends on the release.
std::vector<std::string> names_of(const FrameworkVariable& variable, const Environment& user) {
  std::vector<std::string> names;
  for (const char* name : {variable.name, variable.newer_name}) {
    if (name != nullptr && user(name)) names.emplace_back(name);
  }
  if (names.empty()) names.emplace_back(variable.name);
  return names;
}

// False: what is there stays.
bool set(const FrameworkVariable& variable, const std::string& name, const Environment& user,
         ChildEnvironment* child) {
  const std::string before = variable.is_list ? child->get(name) : user(name).value_or("");
  const std::string present = variable.is_list ? entry_of(before, variable.value) : before;
  if (!present.empty()) return present == variable.value;
  child->set(name, before.empty() ? variable.value : before + "," + variable.value);
  return true;
}

}  // namespace

std::vector<std::string> steer(const Environment& user, ChildEnvironment* child) {
  std::vector<std::string> kept;
  for (const FrameworkVariable& variable : kVariables) {
    for (const std::string& name : names_of(variable, user)) {
      if (!set(variable, name, user, child)) {
        kept.push_back(stays(variable, name, child->get(name)));
      }
    }
  }
  return kept;
}

}  // namespace vram::cli
