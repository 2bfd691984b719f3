#include "cli/options.h"

#include <CLI/CLI.hpp>

namespace vram::cli {
namespace {

constexpr const char* kExitStatus =
    "Exit status: the program's own, or 128 + the signal that ended it; 125 when vram refused or "
    "failed, 126 when the program cannot be run, 127 when it was not found.";

// CLI11 fills plain strings; absent must stay absent.
CLI::Option* text(CLI::App* app, const std::string& names, std::optional<std::string>* to,
                  const std::string& value, const std::string& help) {
  return app
      ->add_option_function<std::string>(
          names, [to](const std::string& given) { *to = given; }, help)
      ->type_name(value);
}

void add_framework_flags(CLI::App* app, Flags* flags) {
  app->add_flag("--growth", flags->growth, "have frameworks take memory as they need it");
  app->add_flag("--greedy", flags->greedy, "have frameworks take their budget at once");
  text(app, "--profile", &flags->profile, "NAME", "a preset: shared, serve or train");
}

void add_sim(CLI::App* app, std::optional<std::string>* sim) {
  text(app, "--sim", sim, "CARDS", "use simulated cards, like 2x24GiB");
}

void add_run_options(CLI::App* run, RunOptions* options) {
  Flags* flags = &options->flags;
  text(run, "-m,--limit", &flags->limit, "SIZE",
       "memory per card: 4GiB, 40%, or by card 0=4GiB,1=8GiB");
  text(run, "--gpu", &flags->gpu, "CARDS", "cards the program sees, in this order: 0,2 or UUIDs");
  add_framework_flags(run, flags);
  text(run, "--alloc", &flags->alloc, "NAME",
       "who serves stream-ordered memory: driver or vram, which gives back what idles");
  run->add_flag("--elastic", flags->elastic,
                "serve memory so that it can be moved to the host and back while the program runs");
  text(run, "--reserve", &flags->reserve, "SIZE",
       "memory per card that is always there for it: 2GiB, 10%, or by card; needs vramd");
  text(run, "--park-after", &flags->park_after, "TIME",
       "have its memory moved to the host when it idled so long: 10min");
  run->add_flag("--no-park", flags->no_park, "its memory is moved for nobody else");
  run->add_flag("--wait", flags->wait, "wait until its reserve fits on the card (the default)");
  run->add_flag("--no-wait", flags->no_wait, "fail when its reserve does not fit at once");
  add_sim(run, &flags->sim);
  run->add_option("--name", options->name, "a name for the job, for ps and limit")
      ->type_name("NAME");
  text(run, "--on-failure", &flags->on_failure, "POLICY",
       "when the limit cannot be enforced: refuse or allow");
  run->add_flag("-q,--quiet", flags->quiet, "no summary at the end");
  run->add_flag("--json", options->json, "the summary at the end as JSON, sizes in bytes");
  run->add_option("CMD", options->command, "the program and its arguments");
  run->footer(kExitStatus);
}

void add_run(CLI::App* root, RunOptions* options) {
  add_run_options(root->add_subcommand("run", "run a program under a memory limit"), options);
}

void add_trace(CLI::App* root, TraceOptions* options) {
  CLI::App* trace =
      root->add_subcommand("trace", "run a program and record every allocation it makes");
  trace->add_option("-o,--output", options->output, "the trace, usually NAME.vtrace.gz")
      ->type_name("FILE")
      ->required();
  trace->add_flag("--force", options->force, "replace FILE");
  trace->add_flag("--as-is", options->as_is, "leave the allocators of frameworks as they are");
  text(trace, "--recover", &options->recover, "LOG",
       "make the trace from what an interrupted recording left, and start nothing");
  add_run_options(trace, &options->run);
}

void number(CLI::App* app, const std::string& name, std::optional<std::uint32_t>* to,
            const std::string& help) {
  app->add_option_function<std::uint32_t>(
         name, [to](std::uint32_t given) { *to = given; }, help)
      ->type_name("N");
}

void add_replay(CLI::App* root, ReplayOptions* options) {
  CLI::App* replay = root->add_subcommand("replay", "run recorded traces through a memory pool");
  replay->add_option("FILE", options->files, "traces of 'vram trace'")
      ->type_name("FILE")
      ->required();
  replay->add_option("--pool", options->pool, "segments (the default), bfc, driver-async or all")
      ->type_name("NAME");
  text(replay, "-m,--limit", &options->limit, "SIZE", "what the pool may hold: 4GiB, 40%");
  replay->add_flag("--smallest-limit", options->smallest_limit,
                   "find the smallest limit at which a trace completes");
  text(replay, "--card", &options->card, "SIZE", "the size of the card, without --real or --sim");
  replay->add_flag("--real", options->real, "on the first card of this machine");
  add_sim(replay, &options->sim);
  number(replay, "--process", &options->process, "which process of the trace");
  number(replay, "--device", &options->device, "which of the trace's cards");
  replay->add_flag("--json", options->json, "machine-readable, sizes in bytes");
}

void add_ps(CLI::App* root, PsOptions* options) {
  CLI::App* ps = root->add_subcommand("ps", "show who holds GPU memory");
  add_sim(ps, &options->sim);
  ps->add_flag("--json", options->json, "machine-readable, sizes in bytes");
}

void add_devices(CLI::App* root, DevicesOptions* options) {
  CLI::App* devices = root->add_subcommand("devices", "show the cards and what is free on them");
  add_sim(devices, &options->sim);
  devices->add_flag("--json", options->json, "machine-readable, sizes in bytes");
}

void add_limit(CLI::App* root, LimitOptions* options) {
  CLI::App* limit = root->add_subcommand("limit", "change the limit of a running job");
  limit->add_option("JOB", options->job, "id or name from ps, or a pid in the job")->required();
  limit->add_option("SIZE", options->limit, "4GiB, 40%, by card 0=4GiB,1=8GiB, or none")
      ->required();
  limit->add_flag("--json", options->json, "machine-readable, sizes in bytes");
}

void add_park(CLI::App* root, const std::string& verb, const std::string& help,
              ParkOptions* options) {
  CLI::App* park = root->add_subcommand(verb, help);
  park->add_option("JOB", options->jobs, "ids or names from ps, or pids in the jobs")->required();
  park->add_option("--timeout", options->timeout,
                   "how long to wait: 60s (the default), 500ms, 5min")
      ->type_name("TIME");
  park->add_flag("--json", options->json, "machine-readable, sizes in bytes");
}

void add_env(CLI::App* root, EnvOptions* options) {
  CLI::App* env = root->add_subcommand("env", "print the environment that a preset stands for");
  env->add_option("FRAMEWORK", options->framework, "tensorflow, jax, pytorch, cupy or onnxruntime")
      ->required();
  add_framework_flags(env, &options->flags);
  text(env, "-m,--limit", &options->flags.limit, "SIZE",
       "also print what limits memory: 4GiB or 40%");
  env->add_flag("--json", options->json, "machine-readable");
}

void add_config(CLI::App* root, ConfigOptions* options) {
  CLI::App* config = root->add_subcommand("config", "show the settings in force");
  config->require_subcommand(1);
  CLI::App* show = config->add_subcommand("show", "show the settings that 'vram run' would use");
  show->add_flag("--origin", options->origin, "also where each one comes from");
  show->add_flag("--json", options->json, "machine-readable");
}

void add_completion(CLI::App* root, CompletionOptions* options) {
  CLI::App* completion = root->add_subcommand("completion", "print a completion script");
  completion->add_option("SHELL", options->shell, "bash, zsh or fish")->required();
}

const CLI::Option* find_option(const CLI::App& app, const std::string& name) {
  for (const CLI::Option* option : app.get_options()) {
    if (option->check_name(name)) return option;
  }
  return nullptr;
}

bool takes_value(const CLI::Option* option) {
  return option != nullptr && option->get_items_expected_max() > 0;
}

// "-qm" leaves -m waiting for the next argument; "-m4GiB" does not.
const CLI::Option* waiting_short(const CLI::App& app, const std::string& argument) {
  for (std::size_t i = 1; i < argument.size(); ++i) {
    const CLI::Option* option = find_option(app, std::string("-") + argument[i]);
    if (takes_value(option)) return i + 1 == argument.size() ? option : nullptr;
  }
  return nullptr;
}

const CLI::Option* waiting_option(const CLI::App& app, const std::string& argument) {
  if (argument.compare(0, 2, "--") != 0) return waiting_short(app, argument);
  if (argument.find('=') != std::string::npos) return nullptr;
  const CLI::Option* option = find_option(app, argument);
  return takes_value(option) ? option : nullptr;
}

}  // namespace

std::unique_ptr<CLI::App> make_options(Options* options) {
  auto root = std::make_unique<CLI::App>("Governs the GPU memory of unmodified programs.", "vram");
  root->set_version_flag("--version", "vram " VRAM_VERSION, "print the version");
  root->set_help_flag("-h,--help", "print this help");
  root->require_subcommand(1);
  root->footer("Manual: man vram. Sizes: 4GiB = 4Gi = 4G (1024), 4GB (1000), 40% of a card.");
  add_run(root.get(), &options->run);
  add_trace(root.get(), &options->trace);
  add_replay(root.get(), &options->replay);
  add_ps(root.get(), &options->ps);
  add_devices(root.get(), &options->devices);
  add_limit(root.get(), &options->limit);
  add_park(root.get(), "park", "move the GPU memory of elastic jobs to host memory",
           &options->park);
  add_park(root.get(), "unpark", "move the GPU memory of parked jobs back to the card",
           &options->unpark);
  add_env(root.get(), &options->env);
  add_config(root.get(), &options->config);
  add_completion(root.get(), &options->completion);
  return root;
}

bool starts_program(const std::string& verb) { return verb == "run" || verb == "trace"; }

std::vector<std::string> take_command(const CLI::App& run, std::vector<std::string>* arguments) {
  std::vector<std::string> kept;
  std::size_t i = 0;
  for (; i < arguments->size(); ++i) {
    const std::string& argument = (*arguments)[i];
    if (argument == "--") {
      ++i;
      break;
    }
    if (argument.size() < 2 || argument[0] != '-') break;
    const CLI::Option* waiting = waiting_option(run, argument);
    if (waiting == nullptr || i + 1 == arguments->size()) {
      kept.push_back(argument);
      continue;
    }
    // Letters before the one that waits stay options of their own.
    if (argument[1] != '-' && argument.size() > 2) {
      kept.push_back(argument.substr(0, argument.size() - 1));
    }
    const std::string& value = (*arguments)[++i];
    const std::string name = "--" + waiting->get_lnames().front();
    if (!value.empty() && value[0] == '-') {
      kept.push_back(name + "=" + value);
    } else {
      kept.insert(kept.end(), {name, value});
    }
  }
  std::vector<std::string> command(arguments->begin() + static_cast<std::ptrdiff_t>(i),
                                   arguments->end());
  *arguments = std::move(kept);
  return command;
}

}  // namespace vram::cli
