#include <cstdio>

#include "cli/commands.h"
#include "cli/framework_env.h"
#include "cli/json.h"
#include "host/limit_text.h"

namespace vram::cli {
namespace {

struct Printed {
  std::vector<NameValue> variables;
  std::vector<std::string> notes;
};

constexpr std::uint64_t kMiB = std::uint64_t{1} << 20;

// How the framework itself can be told a limit, where it can. The cap does not need it.
void add_limit(Framework framework, const base::Size& size, Printed* out) {
  const bool bytes = size.kind == base::Size::Kind::kBytes;
  const std::string fraction =
      "0." + std::string(size.amount < 100 ? (size.amount < 10 ? "00" : "0") : "") +
      std::to_string(size.amount);
  const std::string share = !bytes && size.amount == 1000 ? "1.0" : fraction;
  switch (framework) {
    case Framework::kTensorflow:
      out->notes.push_back(
          "TensorFlow reads no limit from its environment; in the program: "
          "LogicalDeviceConfiguration(memory_limit=MIB)" +
          (bytes ? " with MIB = " + std::to_string(size.amount / kMiB) : std::string()));
      return;
    case Framework::kJax:
      if (bytes) {
        out->notes.push_back("JAX reads a share of the card; give the limit as a percentage");
      } else {
        out->variables.push_back({"XLA_PYTHON_CLIENT_MEM_FRACTION", share});
      }
      return;
    case Framework::kPytorch:
      out->notes.push_back(
          "PyTorch reads no limit that every release knows; in the program: "
          "torch.cuda.set_per_process_memory_fraction(" +
          (bytes ? std::string("FRACTION") : share) + ")");
      return;
    case Framework::kCupy:
      out->variables.push_back(
          {"CUPY_GPU_MEMORY_LIMIT", bytes ? std::to_string(size.amount) : format_size(size)});
      return;
    case Framework::kOnnxruntime:
      out->notes.push_back("in the CUDA provider's options: gpu_mem_limit = " +
                           (bytes ? std::to_string(size.amount) : std::string("BYTES")));
      return;
  }
}

// A preset's own share of the budget and a limit set the same variable; the limit is meant.
void drop_replaced(std::vector<NameValue>* variables) {
  for (std::size_t i = 0; i < variables->size(); ++i) {
    for (std::size_t j = i + 1; j < variables->size(); ++j) {
      if ((*variables)[i].name == (*variables)[j].name) {
        variables->erase(variables->begin() + static_cast<std::ptrdiff_t>(i--));
        break;
      }
    }
  }
}

Result<Printed> collect(const EnvOptions& options, Framework framework) {
  const Flags& flags = options.flags;
  if (!flags.growth && !flags.greedy && !flags.profile && !flags.limit) {
    return Failure{"env: choose what to print: --growth, --greedy, --profile NAME or -m SIZE",
                   kUsage};
  }
  // The command line alone: what is printed is to be put somewhere else.
  const Result<Settings> settings =
      resolve_settings(flags, [](const std::string&) { return std::nullopt; }, {});
  if (!settings) return settings.error();
  Printed printed;
  for (const FrameworkVariable& variable :
       framework_variables(settings->preallocation.value, settings->profile.value)) {
    if (variable.framework == framework)
      printed.variables.push_back({variable.name, variable.value});
  }
  if (settings->preallocation.value || settings->profile.value) {
    printed.notes =
        framework_notes(framework, settings->preallocation.value, settings->profile.value);
  }
  if (!settings->limit.value.empty()) {
    if (!settings->limit.value.every) {
      return Failure{"env: -m: frameworks know one limit for all cards; write 4GiB or 40%"};
    }
    add_limit(framework, *settings->limit.value.every, &printed);
    printed.notes.push_back(
        "this limits what the framework takes, not the whole program; 'vram run -m " +
        *flags.limit + "' does, and needs none of it");
  }
  drop_replaced(&printed.variables);
  return printed;
}

}  // namespace

Result<Done> show_framework_environment(const EnvOptions& options) {
  const std::optional<Framework> framework = parse_framework(options.framework);
  if (!framework) {
    std::string names;
    for (const std::string& name : framework_names()) names += (names.empty() ? "" : ", ") + name;
    return Failure{"env: '" + options.framework + "' is no framework known here; use " + names,
                   kUsage};
  }
  const Result<Printed> printed = collect(options, *framework);
  if (!printed) return printed.error();
  if (options.json) {
    Json variables = Json::object();
    for (const NameValue& variable : printed->variables) variables[variable.name] = variable.value;
    std::fputs(dump({{"schema", kJsonSchema},
                     {"framework", name_of(*framework)},
                     {"variables", variables},
                     {"notes", printed->notes}})
                   .c_str(),
               stdout);
    return Done{};
  }
  for (const NameValue& variable : printed->variables) {
    // No value that a framework knows needs quotes.
    std::printf("export %s=%s\n", variable.name.c_str(), variable.value.c_str());
  }
  for (const std::string& note : printed->notes) std::printf("# %s\n", note.c_str());
  return Done{};
}

}  // namespace vram::cli
