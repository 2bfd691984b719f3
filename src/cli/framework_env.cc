#include "cli/framework_env.h"

#include <array>

namespace vram::cli {
namespace {

struct Row {
  FrameworkVariable variable;
  bool growth, greedy, shared, serve, train;  // which settings include it
};

// Why these: docs/user/frameworks.md. PyTorch and CuPy take memory as they need it anyway; for them
// a preset is about fragmentation.
constexpr std::array kRows = {
    // TensorFlow reads exactly "true" or "false".
    Row{{Framework::kTensorflow, "TF_FORCE_GPU_ALLOW_GROWTH", "true"},
        true,
        false,
        true,
        false,
        false},
    Row{{Framework::kTensorflow, "TF_FORCE_GPU_ALLOW_GROWTH", "false"},
        false,
        true,
        false,
        true,
        true},
    Row{{Framework::kTensorflow, "TF_ENABLE_GPU_GARBAGE_COLLECTION", "true"},
        false,
        false,
        true,
        false,
        false},
    Row{{Framework::kJax, "XLA_PYTHON_CLIENT_PREALLOCATE", "false"},
        true,
        false,
        true,
        false,
        false},
    Row{{Framework::kJax, "XLA_PYTHON_CLIENT_PREALLOCATE", "true"}, false, true, false, true, true},
    // Of the budget; the rest is for the context and the libraries' work spaces. The older name,
    // which new releases still read; both together are an error.
    Row{{Framework::kJax, "XLA_PYTHON_CLIENT_MEM_FRACTION", "0.85", "XLA_CLIENT_MEM_FRACTION"},
        false,
        true,
        false,
        true,
        true},
    Row{{Framework::kPytorch, "PYTORCH_CUDA_ALLOC_CONF", "expandable_segments:True",
         "PYTORCH_ALLOC_CONF", true},
        false,
        false,
        true,
        false,
        true},
};

bool included(const Row& row, std::optional<Preallocation> preallocation,
              std::optional<Profile> profile) {
  const bool about_preallocation = row.growth || row.greedy;
  if (about_preallocation && preallocation) {
    return *preallocation == Preallocation::kGrowth ? row.growth : row.greedy;
  }
  if (!profile) return false;
  switch (*profile) {
    case Profile::kShared:
      return row.shared;
    case Profile::kServe:
      return row.serve;
    case Profile::kTrain:
      break;
  }
  return row.train;
}

bool has_key(const std::string& list, const std::string& entry) {
  const std::string key = entry.substr(0, entry.find(':') + 1);
  return list.compare(0, key.size(), key) == 0 || list.find("," + key) != std::string::npos;
}

constexpr std::pair<Framework, const char*> kNames[] = {{Framework::kTensorflow, "tensorflow"},
                                                        {Framework::kJax, "jax"},
                                                        {Framework::kPytorch, "pytorch"},
                                                        {Framework::kCupy, "cupy"},
                                                        {Framework::kOnnxruntime, "onnxruntime"}};

}  // namespace

const char* name_of(Framework framework) {
  for (const auto& [value, name] : kNames) {
    if (value == framework) return name;
  }
  return "";
}

std::optional<Framework> parse_framework(const std::string& text) {
  for (const auto& [value, name] : kNames) {
    if (text == name) return value;
  }
  return std::nullopt;
}

std::vector<std::string> framework_names() {
  std::vector<std::string> names;
  for (const auto& entry : kNames) names.emplace_back(entry.second);
  return names;
}

std::vector<FrameworkVariable> framework_variables(std::optional<Preallocation> preallocation,
                                                   std::optional<Profile> profile) {
  std::vector<FrameworkVariable> variables;
  for (const Row& row : kRows) {
    if (included(row, preallocation, profile)) variables.push_back(row.variable);
  }
  return variables;
}

std::vector<std::string> framework_notes(Framework framework,
                                         std::optional<Preallocation> preallocation,
                                         std::optional<Profile> profile) {
  const bool greedy = preallocation ? *preallocation == Preallocation::kGreedy
                                    : profile && *profile != Profile::kShared;
  switch (framework) {
    case Framework::kPytorch:
      if (greedy)
        return {"PyTorch takes memory as it needs it; it cannot be made to take all at once"};
      return {};
    case Framework::kCupy:
      return {"CuPy takes memory as it needs it and keeps it; no variable changes that"};
    case Framework::kOnnxruntime:
      return {std::string("ONNX Runtime reads no variables; set the CUDA provider's option "
                          "arena_extend_strategy to ") +
              (greedy ? "kNextPowerOfTwo" : "kSameAsRequested")};
    case Framework::kTensorflow:
    case Framework::kJax:
      break;
  }
  return {};
}

std::vector<NameValue> apply_framework_variables(const std::vector<FrameworkVariable>& variables,
                                                 const Environment& environment, Layer asked) {
  std::vector<NameValue> changed;
  for (const FrameworkVariable& variable : variables) {
    const bool newer = variable.newer_name != nullptr && environment(variable.newer_name);
    if (newer && !variable.is_list) continue;
    const char* name = newer ? variable.newer_name : variable.name;
    const std::optional<std::string> current = environment(name);
    if (!current || current->empty()) {
      changed.push_back({name, variable.value});
    } else if (variable.is_list) {
      if (!has_key(*current, variable.value)) {
        changed.push_back({name, *current + "," + variable.value});
      }
    } else if (asked == Layer::kFlag && *current != variable.value) {
      changed.push_back({name, variable.value});
    }
  }
  return changed;
}

}  // namespace vram::cli
