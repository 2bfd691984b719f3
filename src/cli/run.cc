#include "cli/run.h"

#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>

#include "cli/admission.h"
#include "cli/caps.h"
#include "cli/child_env.h"
#include "cli/context_cost.h"
#include "cli/executable.h"
#include "cli/framework_env.h"
#include "cli/job.h"
#include "cli/launch.h"
#include "cli/settings.h"
#include "cli/steering.h"
#include "cli/summary.h"
#include "cli/visibility.h"
#include "host/daemon_socket.h"
#include "host/host.h"
#include "host/install_layout.h"

namespace vram::cli {
namespace {

// cuGetProcAddress, by which every program of today finds the driver, came with CUDA 11.3.
constexpr int kLeastCudaVersion = 11030;

constexpr std::size_t kMaxName = 63;  // as much as a job file keeps

Result<Done> check_name(const std::string& name) {
  if (name.empty()) return Done{};
  const bool digits = name.find_first_not_of("0123456789") == std::string::npos;
  const bool printable =
      std::all_of(name.begin(), name.end(), [](unsigned char c) { return c > ' ' && c != 0x7f; });
  if (name.size() > kMaxName || digits || !printable) {
    return Failure{"--name: '" + name +
                   "' is no name; use 1 to 63 characters without spaces, not only digits"};
  }
  return Done{};
}

std::string search_path() {
  const char* path = std::getenv("PATH");
  return path != nullptr ? path : "/usr/local/bin:/usr/bin:/bin";
}

std::string joined(const std::vector<std::string>& words) {
  std::string line;
  for (const std::string& word : words) line += (line.empty() ? "" : " ") + word;
  return line;
}

// A `vram run` in a job: the program joins that job, whose limit goes on to hold for all together.
std::optional<std::string> outer_job() {
  const char* path = std::getenv("VRAM_JOB");
  if (path == nullptr || path[0] == '\0') return std::nullopt;
  const wire::Mapping mapping = wire::open_job(path, wire::Access::kRead);
  if (mapping.job == nullptr) return std::nullopt;
  std::string id = mapping.job->header.id;
  wire::unmap_job(mapping.job);
  return id;
}

Result<Done> check_joinable(const Flags& flags, const std::string& job) {
  const std::pair<const char*, bool> given[] = {{"-m", flags.limit.has_value()},
                                                {"--gpu", flags.gpu.has_value()},
                                                {"--alloc", flags.alloc.has_value()},
                                                {"--elastic", flags.elastic},
                                                {"--reserve", flags.reserve.has_value()},
                                                {"--park-after", flags.park_after.has_value()},
                                                {"--no-park", flags.no_park},
                                                {"--sim", flags.sim.has_value()}};
  for (const auto& [name, present] : given) {
    if (!present) continue;
    return Failure{std::string(name) + ": this is already inside job " + job +
                   ", whose limit holds for everything in it; leave " + name +
                   " out, or change the job with 'vram limit " + job + " SIZE'"};
  }
  return Done{};
}

void apply_frameworks(const Settings& settings, ChildEnvironment* environment) {
  // Whichever was asked for more explicitly decides whether variables that are set are replaced.
  const Layer asked = std::max(settings.preallocation.layer, settings.profile.layer);
  const auto variables = framework_variables(settings.preallocation.value, settings.profile.value);
  for (const NameValue& variable :
       apply_framework_variables(variables, real_environment(), asked)) {
    environment->set(variable.name, variable.value);
  }
}

// Everything that is known before anything is made.
struct Plan {
  Settings settings;
  InstallLayout layout;
  std::optional<Host> host;  // none: no driver, and --on-failure allow
  Visibility visible;
  std::vector<std::uint64_t> caps, reserves;
  std::vector<std::uint64_t> contexts;
  bool preload = true;
};

void warn(const std::string& message) {
  std::fprintf(stderr, "vram: warning: %s\n", message.c_str());
}

// A reason not to start, or, with --on-failure allow, a warning.
Result<Done> obstacle(const Settings& settings, const std::string& reason,
                      const std::string& next) {
  if (settings.on_failure.value == OnFailure::kRefuse) {
    return Failure{reason + "; " + next + ", or accept that with --on-failure allow"};
  }
  warn(reason);
  return Done{};
}

Result<Done> check_command(const Settings& settings, const std::string& command) {
  const Result<std::string> path = find_executable(command, search_path());
  if (!path) return path.error();
  const std::string reason = why_not_governable(*path, search_path());
  if (reason.empty()) return Done{};
  return obstacle(settings, reason + ", so its GPU memory cannot be limited",
                  "run a dynamically linked program of the same user");
}

Result<Done> check_libraries(Plan* plan) {
  for (const std::string& library : {plan->layout.driver, plan->layout.management}) {
    std::string reason;
    if (!exists(library)) reason = "the library " + library + " is missing";
    // The dynamic linker takes both as separators of the list.
    if (library.find_first_of(" :") != std::string::npos) {
      reason = "the path " + library +
               " has a space or a colon, which LD_PRELOAD cannot hold, so vram must lie elsewhere";
    }
    if (reason.empty()) continue;
    plan->preload = false;
    return obstacle(plan->settings, reason, "reinstall vram");
  }
  return Done{};
}

Result<Done> check_cards(Plan* plan) {
  auto host = read_host(plan->settings.sim.value, plan->layout);
  if (!host) {
    if (host.error().problem != HostProblem::kNoDriver ||
        plan->settings.on_failure.value == OnFailure::kRefuse) {
      return host.error().failure;
    }
    warn(host.error().failure.message);
    return Done{};
  }
  if (host->cuda_version != 0 && host->cuda_version < kLeastCudaVersion) {
    const std::string version = std::to_string(host->cuda_version / 1000) + "." +
                                std::to_string(host->cuda_version % 1000 / 10);
    return Failure{"the NVIDIA driver is too old (" + host->driver_release + ", CUDA " + version +
                   "); vram needs one for CUDA 11.3 or later, which is 465.19 or later"};
  }
  const Environment environment = real_environment();
  const Result<Visibility> visible =
      resolve_visibility({plan->settings.gpu.value, environment("CUDA_VISIBLE_DEVICES"),
                          environment("CUDA_DEVICE_ORDER")},
                         host->cards);
  if (!visible) return visible.error();
  plan->visible = *visible;
  const ContextCosts costs(context_cost_file(environment), host->driver_release);
  const Result<std::vector<std::uint64_t>> caps =
      resolve_caps(plan->settings.limit, plan->settings.ceiling, plan->visible.cards, host->cards,
                   [&](const probe::Card& card) { return costs.of(card); });
  if (!caps) return caps.error();
  plan->caps = *caps;
  const Result<std::vector<std::uint64_t>> reserves =
      resolve_reserves(plan->settings.reserve, plan->visible.cards, host->cards, plan->caps);
  if (!reserves) return reserves.error();
  plan->reserves = *reserves;
  for (const probe::Card& card : plan->visible.cards) {
    const ContextCost cost = costs.of(card);
    plan->contexts.push_back(cost.measured ? cost.bytes : 0);
  }
  plan->host = std::move(*host);
  return Done{};
}

Result<Plan> make_plan(const RunOptions& options) {
  const Environment environment = real_environment();
  Plan plan;
  const Result<Settings> settings =
      resolve_settings(options.flags, environment, settings_files(environment));
  if (!settings) return settings.error();
  plan.settings = *settings;
  plan.layout = find_install_layout(executable_folder());
  if (const auto fine = check_command(plan.settings, options.command.front()); !fine) {
    return fine.error();
  }
  if (const auto fine = check_cards(&plan); !fine) return fine.error();
  if (const auto fine = check_libraries(&plan); !fine) return fine.error();
  return plan;
}

wire::Pools pools_of(const Settings& settings) {
  if (settings.elastic.value) return wire::Pools::kElastic;
  return settings.alloc.value == Allocator::kVram ? wire::Pools::kOwn : wire::Pools::kDriver;
}

Result<JobFile> make_job_file(const RunOptions& options, const Plan& plan,
                              const std::string& trace_path) {
  JobRequest request;
  request.name = options.name;
  request.command = joined(options.command);
  request.on_failure = plan.settings.on_failure.value;
  request.pools = pools_of(plan.settings);
  request.limit = plan.settings.limit.value;
  // The ceiling holds on cards, too, that nobody named and the program comes to all the same.
  if (!request.limit.every) request.limit.every = plan.settings.ceiling.value.every;
  request.cards = plan.visible.cards;
  request.caps = plan.caps;
  request.reserves = plan.reserves;
  const std::optional<base::Size>& reserve = plan.settings.reserve.value.every;
  if (reserve && reserve->kind == base::Size::Kind::kBytes) {
    request.default_reserve = bytes_on(*reserve, 0);
  }
  request.park_after_ms = plan.settings.park_after_ms.value;
  request.stays = !plan.settings.park.value;
  request.daemon_path = daemon_socket();
  request.contexts = plan.contexts;
  request.trace_path = trace_path;
  if (plan.settings.sim.value) {
    request.driver_path = plan.layout.simulated_driver;
    request.nvml_path = plan.layout.simulated_management;
  }
  return make_job(request);
}

ChildEnvironment make_environment(const Plan& plan, const JobFile& job) {
  ChildEnvironment environment;
  environment.set("VRAM_JOB", job.path());
  if (plan.visible.variable) environment.set("CUDA_VISIBLE_DEVICES", *plan.visible.variable);
  if (plan.preload) environment.preload({plan.layout.driver, plan.layout.management});
  // The vendor's runtime library refuses a simulated driver.
  if (plan.settings.sim.value && exists(plan.layout.simulated_runtime)) {
    environment.search_first(plan.layout.simulated_runtime);
  }
  apply_frameworks(plan.settings, &environment);
  return environment;
}

void remember_context_costs(const Plan& plan, const wire::Job& job) {
  if (!plan.host) return;
  const ContextCosts costs(context_cost_file(real_environment()), plan.host->driver_release);
  for (const wire::DeviceAccount& account : job.device) {
    if (account.key.load() != 0) costs.remember(account.name, account.context_bytes.load());
  }
}

trace::Facts facts_of(const RunOptions& options, const Plan& plan) {
  trace::Facts facts{{"command", joined(options.command)}};
  if (plan.host) facts.emplace_back("driver", plan.host->driver_release);
  for (std::size_t i = 0; i < plan.visible.cards.size(); ++i) {
    const std::string name = "device" + std::to_string(i);
    facts.emplace_back(name, plan.visible.cards[i].name);
    facts.emplace_back(name + ".bytes", std::to_string(plan.visible.cards[i].capacity()));
  }
  return facts;
}

Result<Done> tell_the_end(const RunOptions& options, const Plan& plan, const wire::Job& job,
                          int status, Recorder* recorder) {
  std::optional<trace::Summary> recorded;
  if (recorder != nullptr) {
    const Result<trace::Summary> finished = recorder->finish(job);
    if (!finished) return finished.error();
    recorded = *finished;
  }
  if (options.json) {
    std::fprintf(stderr, "%s\n", summarise_as_json(job, status, recorded).c_str());
  } else if (!plan.settings.quiet.value) {
    std::fprintf(stderr, "vram: %s\n", summarise(job).c_str());
    if (recorded) {
      std::fprintf(stderr, "vram: %s\n", summarise_trace(recorder->output(), *recorded).c_str());
    }
  }
  return Done{};
}

Result<int> run_in_new_job(const RunOptions& options, Recorder* recorder) {
  Result<Plan> plan = make_plan(options);
  if (!plan) return plan.error();
  if (recorder != nullptr) {
    const auto ready = recorder->prepare(facts_of(options, *plan));
    if (!ready) return ready.error();
  }
  const Result<JobFile> job =
      make_job_file(options, *plan, recorder != nullptr ? recorder->log_path() : "");
  if (!job) return job.error();
  if (const Result<Done> admitted = be_admitted(plan->settings, *job); !admitted) {
    set_main_process(**job, 0);
    finish_job(*job);
    return admitted.error();
  }
  ChildEnvironment environment = make_environment(*plan, *job);
  if (recorder != nullptr) recorder->steer(&environment);
  // Elastic memory is whatever a program allocates: frameworks may keep pools of their own.
  if (recorder == nullptr && pools_of(plan->settings) == wire::Pools::kOwn) {
    for (const std::string& sentence : steer(real_environment(), &environment)) warn(sentence);
  }
  // The library has state of its own that a forked child must not share.
  if (plan->host) plan->host->nvml.reset();
  const Result<int> status =
      run_and_wait({options.command, environment.variables()}, [&](pid_t pid) {
        set_main_process(**job, pid);
        if (recorder != nullptr) recorder->begin(pid);
      });
  finish_job(*job);
  if (!status) return status;
  remember_context_costs(*plan, **job);
  const Result<Done> told = tell_the_end(options, *plan, **job, *status, recorder);
  if (!told) return told.error();
  return status;
}

Result<int> join_job(const RunOptions& options, const std::string& job) {
  if (const Result<Done> fine = check_joinable(options.flags, job); !fine) return fine.error();
  const Environment environment = real_environment();
  const Result<Settings> settings =
      resolve_settings(options.flags, environment, settings_files(environment));
  if (!settings) return settings.error();
  if (const auto fine = check_command(*settings, options.command.front()); !fine) {
    return fine.error();
  }
  ChildEnvironment variables;
  // Whatever cleaned the environment in between may have kept the job and dropped these.
  const InstallLayout layout = find_install_layout(executable_folder());
  if (exists(layout.driver)) variables.preload({layout.driver, layout.management});
  apply_frameworks(*settings, &variables);
  return become({options.command, variables.variables()});
}

}  // namespace

Result<int> run(const RunOptions& options, Recorder* recorder) {
  if (options.command.empty()) {
    return Failure{"run: there is no command to run; write: vram run -m 4GiB -- CMD ARG..."};
  }
  if (const Result<Done> fine = check_name(options.name); !fine) return fine.error();
  const std::optional<std::string> outer = outer_job();
  if (outer && recorder != nullptr) {
    return Failure{"trace: this is already inside job " + *outer +
                   ", and a recording is one of a whole job; start the recording outside of it"};
  }
  return outer ? join_job(options, *outer) : run_in_new_job(options, recorder);
}

}  // namespace vram::cli
