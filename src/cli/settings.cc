#include "cli/settings.h"

#include <cstdlib>

#include "cli/settings_file.h"
#include "host/duration.h"

namespace vram::cli {
namespace {

template <typename T>
void set(Setting<T>* setting, T value, Layer layer, const std::string& origin) {
  setting->value = std::move(value);
  setting->layer = layer;
  setting->origin = origin;
}

Result<OnFailure> parse_on_failure(const std::string& text, const std::string& source) {
  if (text == "refuse") return OnFailure::kRefuse;
  if (text == "allow") return OnFailure::kAllow;
  return Failure{source + ": '" + text + "' is unknown; use refuse or allow"};
}

Result<Allocator> parse_allocator(const std::string& text, const std::string& source) {
  if (text == "driver") return Allocator::kDriver;
  if (text == "vram") return Allocator::kVram;
  return Failure{source + ": '" + text + "' is unknown; use driver or vram"};
}

Result<bool> parse_switch(const FileValue& given) {
  if (given.text == "true" || given.text == "1") return true;
  if (given.text == "false" || given.text == "0") return false;
  return Failure{given.origin + ": '" + given.text + "' is unknown; use true or false"};
}

Failure both_chosen(const std::string& one, const std::string& other) {
  return {one + " and " + other + " exclude each other; choose one"};
}

// The texts of one layer and where they came from.
struct Texts {
  std::optional<FileValue> reserve, gpu, profile, alloc, park_after, on_failure, sim;
};

Result<Done> apply_texts(const Texts& texts, Layer layer, Settings* out) {
  if (texts.gpu) set(&out->gpu, std::optional(texts.gpu->text), layer, texts.gpu->origin);
  if (texts.sim) set(&out->sim, std::optional(texts.sim->text), layer, texts.sim->origin);
  if (texts.reserve) {
    const Result<Limit> reserve = parse_limit(texts.reserve->text, texts.reserve->origin);
    if (!reserve) return reserve.error();
    set(&out->reserve, *reserve, layer, texts.reserve->origin);
  }
  if (texts.park_after) {
    const auto idle_ms = parse_duration(texts.park_after->text, texts.park_after->origin);
    if (!idle_ms) return idle_ms.error();
    set(&out->park_after_ms, *idle_ms, layer, texts.park_after->origin);
  }
  if (texts.profile) {
    const Result<Profile> profile = parse_profile(texts.profile->text, texts.profile->origin);
    if (!profile) return profile.error();
    set(&out->profile, std::optional(*profile), layer, texts.profile->origin);
  }
  if (texts.alloc) {
    const Result<Allocator> alloc = parse_allocator(texts.alloc->text, texts.alloc->origin);
    if (!alloc) return alloc.error();
    set(&out->alloc, *alloc, layer, texts.alloc->origin);
  }
  if (texts.on_failure) {
    const auto policy = parse_on_failure(texts.on_failure->text, texts.on_failure->origin);
    if (!policy) return policy.error();
    set(&out->on_failure, *policy, layer, texts.on_failure->origin);
  }
  return Done{};
}

Result<Done> apply_file(const SettingsFile& file, Layer layer, Settings* out) {
  if (file.limit) {
    const Result<Limit> limit = parse_limit(file.limit->text, file.limit->origin);
    if (!limit) return limit.error();
    set(&out->limit, *limit, layer, file.limit->origin);
    if (layer == Layer::kSystemFile) set(&out->ceiling, *limit, layer, file.limit->origin);
  }
  // "false" takes back what a file before said, and no more.
  const auto takes_back = [&](const std::optional<FileFlag>& flag, Preallocation value) {
    if (!flag || flag->value || out->preallocation.value != value) return;
    set(&out->preallocation, std::optional<Preallocation>(), layer, flag->origin);
  };
  takes_back(file.growth, Preallocation::kGrowth);
  takes_back(file.greedy, Preallocation::kGreedy);
  const bool growth = file.growth && file.growth->value;
  const bool greedy = file.greedy && file.greedy->value;
  if (growth && greedy) return both_chosen(file.growth->origin, file.greedy->origin);
  if (growth) {
    set(&out->preallocation, std::optional(Preallocation::kGrowth), layer, file.growth->origin);
  }
  if (greedy) {
    set(&out->preallocation, std::optional(Preallocation::kGreedy), layer, file.greedy->origin);
  }
  if (file.elastic) set(&out->elastic, file.elastic->value, layer, file.elastic->origin);
  if (file.park) set(&out->park, file.park->value, layer, file.park->origin);
  if (file.wait) set(&out->wait, file.wait->value, layer, file.wait->origin);
  if (file.quiet) set(&out->quiet, file.quiet->value, layer, file.quiet->origin);
  return apply_texts({file.reserve, file.gpu, file.profile, file.alloc, file.park_after,
                      file.on_failure, file.sim},
                     layer, out);
}

std::optional<FileValue> variable(const Environment& environment, const char* name) {
  std::optional<std::string> text = environment(name);
  if (!text || text->empty()) return std::nullopt;
  return FileValue{*text, name};
}

struct Switch {
  const char* name;
  bool given;  // by a flag
  Setting<bool> Settings::*slot;
};

Result<Done> apply_switches(const Environment& environment, const Flags& flags, Settings* out) {
  const Switch switches[] = {{"VRAM_ELASTIC", flags.elastic, &Settings::elastic},
                             {"VRAM_PARK", flags.no_park, &Settings::park},
                             {"VRAM_WAIT", flags.wait || flags.no_wait, &Settings::wait}};
  for (const Switch& one : switches) {
    const auto given = one.given ? std::nullopt : variable(environment, one.name);
    if (!given) continue;
    const Result<bool> on = parse_switch(*given);
    if (!on) return on.error();
    set(&(out->*one.slot), *on, Layer::kEnvironment, given->origin);
  }
  return Done{};
}

Result<Done> apply_environment(const Environment& environment, const Flags& flags, Settings* out) {
  // A variable that a flag replaces is not read: it may be meant for another program.
  if (!flags.limit) {
    // Set but empty is an error: a deployment file whose value went missing must not mean "no cap".
    for (const char* name : {"PER_PROCESS_GPU_MEMORY", "VRAM_LIMIT"}) {
      const std::optional<std::string> text = environment(name);
      if (!text) continue;
      const Result<Limit> limit = std::string(name) == "VRAM_LIMIT" ? parse_limit(*text, name)
                                                                    : parse_mib_limit(*text, name);
      if (!limit) return limit.error();
      set(&out->limit, *limit, Layer::kEnvironment, name);
    }
  }
  Texts texts;
  if (!flags.profile) texts.profile = variable(environment, "VRAM_PROFILE");
  if (!flags.alloc) texts.alloc = variable(environment, "VRAM_ALLOC");
  if (!flags.on_failure) texts.on_failure = variable(environment, "VRAM_ON_FAILURE");
  if (!flags.sim) texts.sim = variable(environment, "VRAM_SIM");
  if (!flags.reserve) texts.reserve = variable(environment, "VRAM_RESERVE");
  if (!flags.park_after) texts.park_after = variable(environment, "VRAM_PARK_AFTER");
  if (const auto done = apply_switches(environment, flags, out); !done) return done.error();
  return apply_texts(texts, Layer::kEnvironment, out);
}

std::optional<FileValue> flag(const std::optional<std::string>& text, const char* name) {
  return text ? std::optional(FileValue{*text, name}) : std::nullopt;
}

Result<Done> apply_flags(const Flags& flags, Settings* out) {
  if (flags.limit) {
    const Result<Limit> limit = parse_limit(*flags.limit, "-m");
    if (!limit) return limit.error();
    set(&out->limit, *limit, Layer::kFlag, "-m");
  }
  if (flags.growth && flags.greedy) return both_chosen("--growth", "--greedy");
  if (flags.growth) {
    set(&out->preallocation, std::optional(Preallocation::kGrowth), Layer::kFlag, "--growth");
  }
  if (flags.greedy) {
    set(&out->preallocation, std::optional(Preallocation::kGreedy), Layer::kFlag, "--greedy");
  }
  if (flags.elastic) set(&out->elastic, true, Layer::kFlag, "--elastic");
  if (flags.no_park) set(&out->park, false, Layer::kFlag, "--no-park");
  if (flags.no_park && flags.park_after) return both_chosen("--no-park", "--park-after");
  if (flags.wait && flags.no_wait) return both_chosen("--wait", "--no-wait");
  if (flags.wait) set(&out->wait, true, Layer::kFlag, "--wait");
  if (flags.no_wait) set(&out->wait, false, Layer::kFlag, "--no-wait");
  if (flags.quiet) set(&out->quiet, true, Layer::kFlag, "--quiet");
  return apply_texts(
      {flag(flags.reserve, "--reserve"), flag(flags.gpu, "--gpu"), flag(flags.profile, "--profile"),
       flag(flags.alloc, "--alloc"), flag(flags.park_after, "--park-after"),
       flag(flags.on_failure, "--on-failure"), flag(flags.sim, "--sim")},
      Layer::kFlag, out);
}

// What is to be parked, vram's own pools must serve: whichever of the two wishes was said in the
// higher layer holds, and within one layer they contradict each other.
Result<Done> settle_elastic(Settings* out) {
  if (!out->elastic.value || out->alloc.value == Allocator::kVram) return Done{};
  if (out->alloc.layer > out->elastic.layer) {
    set(&out->elastic, false, out->alloc.layer, out->alloc.origin);
    return Done{};
  }
  if (out->alloc.layer == out->elastic.layer) {
    return Failure{out->elastic.origin + " needs vram's own pools, and " + out->alloc.origin +
                   " chooses the driver's, which cannot be parked; leave one of them out"};
  }
  set(&out->alloc, Allocator::kVram, out->elastic.layer, out->elastic.origin);
  return Done{};
}

// What only memory that can be taken back allows. A file speaks of the elastic runs among all.
template <typename T>
Result<Done> needs_elastic(Setting<T>* setting, const T& without, const Settings& settings) {
  if (settings.elastic.value || setting->layer == Layer::kDefault) return Done{};
  if (setting->layer >= Layer::kEnvironment) {
    return Failure{setting->origin +
                   " is for memory that can be moved, and this run's cannot; add " +
                   "--elastic, or leave " + setting->origin + " out"};
  }
  set(setting, without, setting->layer, setting->origin);
  return Done{};
}

Result<Done> settle_what_needs_elastic(Settings* out) {
  if (auto fine = needs_elastic(&out->reserve, Limit(), *out); !fine) return fine;
  if (auto fine = needs_elastic(&out->park_after_ms, std::uint64_t{0}, *out); !fine) return fine;
  if (auto fine = needs_elastic(&out->park, true, *out); !fine) return fine;
  // Of the two the one said in the higher layer holds.
  if (out->park.value || out->park_after_ms.value == 0) return Done{};
  if (out->park_after_ms.layer > out->park.layer) {
    set(&out->park, true, out->park_after_ms.layer, out->park_after_ms.origin);
  } else {
    set(&out->park_after_ms, std::uint64_t{0}, out->park.layer, out->park.origin);
  }
  return Done{};
}

}  // namespace

Environment real_environment() {
  return [](const std::string& name) -> std::optional<std::string> {
    const char* value = std::getenv(name.c_str());
    return value != nullptr ? std::optional<std::string>(value) : std::nullopt;
  };
}

const char* name_of(Preallocation value) {
  return value == Preallocation::kGrowth ? "growth" : "greedy";
}

const char* name_of(Profile value) {
  switch (value) {
    case Profile::kShared:
      return "shared";
    case Profile::kServe:
      return "serve";
    case Profile::kTrain:
      break;
  }
  return "train";
}

const char* name_of(Allocator value) { return value == Allocator::kDriver ? "driver" : "vram"; }

const char* name_of(OnFailure value) { return value == OnFailure::kRefuse ? "refuse" : "allow"; }

Result<Profile> parse_profile(const std::string& text, const std::string& source) {
  for (const Profile profile : {Profile::kShared, Profile::kServe, Profile::kTrain}) {
    if (text == name_of(profile)) return profile;
  }
  return Failure{source + ": there is no profile '" + text + "'; use shared, serve or train"};
}

SettingsFiles settings_files(const Environment& environment) {
  SettingsFiles files;
  files.system = "/etc/vram/config.toml";
  const std::optional<std::string> xdg = environment("XDG_CONFIG_HOME");
  const std::optional<std::string> home = environment("HOME");
  // The XDG specification has relative paths ignored.
  if (xdg && !xdg->empty() && xdg->front() == '/') {
    files.user = *xdg + "/vram/config.toml";
  } else if (home && !home->empty()) {
    files.user = *home + "/.config/vram/config.toml";
  }
  return files;
}

Result<Settings> resolve_settings(const Flags& flags, const Environment& environment,
                                  const SettingsFiles& files) {
  Settings settings;
  const std::pair<std::string, Layer> layers[] = {{files.system, Layer::kSystemFile},
                                                  {files.user, Layer::kUserFile}};
  for (const auto& [path, layer] : layers) {
    const Result<SettingsFile> file = read_settings_file(path);
    if (!file) return file.error();
    if (const Result<Done> done = apply_file(*file, layer, &settings); !done) return done.error();
  }
  const Result<Done> environment_read = apply_environment(environment, flags, &settings);
  if (!environment_read) return environment_read.error();
  if (const Result<Done> done = apply_flags(flags, &settings); !done) return done.error();
  if (const Result<Done> done = settle_elastic(&settings); !done) return done.error();
  if (const auto done = settle_what_needs_elastic(&settings); !done) return done.error();
  return settings;
}

Result<Setting<Limit>> read_ceiling(const std::string& system_file) {
  const Result<Settings> settings =
      resolve_settings({}, [](const std::string&) { return std::nullopt; }, {"", system_file});
  if (!settings) return settings.error();
  return settings->ceiling;
}

}  // namespace vram::cli
