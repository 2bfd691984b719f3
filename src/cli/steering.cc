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
  return name + " is set to " + value + " and stays, so allocations of " +
         name_of(variable.framework) + " may be hidden in a pool of its own; with " +
         variable.value + " they are seen";
}

}  // namespace

Steering steer(const Environment& user, ChildEnvironment* child) {
  Steering steering;
  for (const FrameworkVariable& variable : kVariables) {
    const bool newer = variable.newer_name != nullptr && user(variable.newer_name);
    const std::string name = newer ? variable.newer_name : variable.name;
    const std::string own = user(name).value_or("");
    const std::string before = variable.is_list ? child->get(name) : own;
    const std::string present = variable.is_list ? entry_of(before, variable.value) : before;
    if (!present.empty() && present != variable.value) {
      steering.kept.push_back(stays(variable, name, before));
      continue;
    }
    const bool add = variable.is_list && !before.empty();
    if (!(add && present == variable.value)) {
      child->set(name, add ? before + "," + variable.value : variable.value);
    }
    const std::string framework = name_of(variable.framework);
    if (steering.steered.empty() || steering.steered.back() != framework) {
      steering.steered.push_back(framework);
    }
  }
  return steering;
}

}  // namespace vram::cli
