// From settings to logical devices: initialisation, claims, and finding a device again.

#include <algorithm>

#include "config/compat_plan.h"
#include "config/device_name.h"
#include "config/runtime.h"
#include "config/v1_options.h"
#include "pool/elastic_budget.h"

namespace vram::config {
namespace {

std::string gpu_name(std::size_t number) { return "/device:GPU:" + std::to_string(number); }

Fault pool_fault(const std::string& name, const pool::Failure& failure) {
  const bool full = failure.code == CUDA_ERROR_OUT_OF_MEMORY;
  return {full ? FaultKind::kResourceExhausted : FaultKind::kInternal,
          name + ": " + failure.message};
}

}  // namespace

Result<CardMemory> Runtime::card_memory(int card) {
  auto context = contexts_.find(card);
  if (context == contexts_.end()) {
    auto retained = PrimaryContext::retain(*driver_, cards_[static_cast<std::size_t>(card)]);
    if (!retained) return retained.error();
    context = contexts_.emplace(card, std::move(*retained)).first;
  }
  return context->second.memory();
}

Outcome Runtime::ready(const char* call) {
  if (const Outcome fine = start(); !fine) return fine;
  if (!v2_by_.empty()) return Done{};
  const Result<Environment> environment = this->environment();
  if (!environment) return environment.error();
  Result<std::vector<std::size_t>> joined = std::vector<std::size_t>{};
  if (*mode_ == Mode::kCompat) {
    std::vector<std::string> notes;
    const auto config = compat_config(world(), &notes);
    if (!config) return config.error();
    note(notes);
    auto plans =
        compat_plan(world(), *config, *environment, [this](int card) { return card_memory(card); });
    if (!plans) return plans.error();
    joined = join_compat(*plans);
  } else {
    const auto wishes = visible_wishes();
    if (!wishes) return wishes.error();
    joined = join_strict(*wishes, call);
  }
  if (!joined) return joined.error();
  v2_by_ = call;
  if (first_by_.empty()) first_by_ = call;
  return Done{};
}

// Of an imported config what the v2 settings leave open; otherwise nothing of each card.
Result<std::vector<CardWish>> Runtime::visible_wishes() {
  compat::v1::ConfigProto base = settings_.imported.value_or(compat::v1::ConfigProto{});
  // The import has made them the visible devices.
  base.gpu_options.visible_device_list.clear();
  base.device_count.clear();
  Result<std::vector<CardWish>> wishes = session_wishes(world(), base);
  if (!wishes) return wishes;
  for (CardWish& wish : *wishes) {
    if (settings_wish(world(), wish.card).silent()) continue;
    CardWish nothing;
    nothing.card = wish.card;
    wish = nothing;
  }
  return wishes;
}

Result<std::vector<std::size_t>> Runtime::join_compat(const std::vector<CardPlan>& plans) {
  const Result<Environment> environment = this->environment();
  if (!environment) return environment.error();
  std::vector<std::size_t> joined;
  std::vector<Logical> made;
  for (const CardPlan& plan : plans) {
    note(plan.notes);
    // Devices with these numbers are there already: TensorFlow uses them, whatever the options.
    CardPlan rest = plan;
    rest.devices.clear();
    for (const DevicePlan& device : plan.devices) {
      const std::size_t number = joined.size();
      joined.push_back(number);
      if (number >= gpus_.size()) {
        rest.devices.push_back(device);
        continue;
      }
      if (gpus_[number].card != plan.card) {
        return Fault{FaultKind::kAlreadyExists,
                     "TensorFlow device (GPU:" + std::to_string(number) +
                         ") is being mapped to multiple devices (" + std::to_string(plan.card) +
                         " now, and " + std::to_string(gpus_[number].card) +
                         " previously), which is not supported; give all sessions of a process the "
                         "same visible_device_list"};
      }
      if (gpus_[number].limit != device.limit ||
          gpus_[number].options.growth != plan.options.growth) {
        note("GPU:" + std::to_string(number) + " keeps the memory options of " + first_by_ +
             "; later ones are ignored");
      }
    }
    if (rest.devices.empty()) continue;
    const std::size_t first = gpus_.size() + made.size();
    Result<std::vector<Logical>> devices = make_devices(rest, *environment, first);
    if (!devices) return devices.error();
    made.insert(made.end(), devices->begin(), devices->end());
  }
  gpus_.insert(gpus_.end(), made.begin(), made.end());
  return joined;
}

// What is wanted of the card by this party, or by the v2 settings where it says nothing.
Result<CardWish> Runtime::wish_of(const CardWish& asked, const std::string& by) {
  const CardWish set = settings_wish(world(), asked.card);
  if (asked.silent()) return set;
  if (set.silent() || set.same(asked)) return asked;
  return Fault{FaultKind::kAlreadyExists,
               by + " asks for other memory options on " + short_name(asked.card) +
                   " than the configuration has set; set them in one place"};
}

Outcome Runtime::check_conflicts(const std::vector<CardWish>& wishes, const std::string& by) {
  for (const CardWish& wish : wishes) {
    const auto claim = claims_.find(wish.card);
    if (claim == claims_.end()) {
      if (const auto fine = wish_of(wish, by); !fine) return fine.error();
      continue;
    }
    if (wish.silent() || wish.same(claim->second.wish)) continue;
    return Fault{FaultKind::kAlreadyExists,
                 by + " asks for other memory options on " + short_name(wish.card) + " than " +
                     claim->second.by +
                     ", which has set it up; give both the same, or the GPU to "
                     "one of them"};
  }
  return Done{};
}

Result<std::vector<std::size_t>> Runtime::join_strict(const std::vector<CardWish>& wishes,
                                                      const std::string& by) {
  const Result<Environment> environment = this->environment();
  if (!environment) return environment.error();
  if (const Outcome fine = check_conflicts(wishes, by); !fine) return fine.error();
  std::map<int, Claim> claims;
  std::vector<Logical> made;
  for (const CardWish& asked : wishes) {
    if (claims_.count(asked.card) != 0) continue;
    const Result<CardWish> wish = wish_of(asked, by);
    if (!wish) return wish.error();
    Result<CardPlan> plan =
        strict_plan(world(), *wish, *environment, [this](int card) { return card_memory(card); });
    if (!plan) return plan.error();
    note(plan->notes);
    const std::size_t first = gpus_.size() + made.size();
    Result<std::vector<Logical>> devices = make_devices(*plan, *environment, first);
    if (!devices) return devices.error();
    Claim claim{*wish, by, {}};
    for (std::size_t i = 0; i < devices->size(); ++i) claim.gpus.push_back(first + i);
    claims.emplace(asked.card, std::move(claim));
    made.insert(made.end(), devices->begin(), devices->end());
  }
  // Nothing fails from here on.
  gpus_.insert(gpus_.end(), made.begin(), made.end());
  claims_.merge(claims);
  std::vector<std::size_t> joined;
  for (const CardWish& wish : wishes) {
    const Claim& claim = claims_.at(wish.card);
    joined.insert(joined.end(), claim.gpus.begin(), claim.gpus.end());
    if (claim.by != by && wish.silent() && !claim.wish.silent()) {
      note(by + " says nothing of memory on " + short_name(wish.card) + " and shares what " +
           claim.by + " has set up");
    }
  }
  return joined;
}

Result<std::vector<Logical>> Runtime::make_devices(const CardPlan& plan,
                                                   const Environment& environment,
                                                   std::size_t first_number) {
  std::vector<Logical> made;
  std::shared_ptr<pool::ElasticBudget> shared;
  if (plan.shared) shared = pool::ElasticBudget::create(*plan.shared);
  for (const DevicePlan& device : plan.devices) {
    Logical logical;
    logical.device = {gpu_name(first_number + made.size()), "GPU", device.priority};
    logical.card = plan.card;
    logical.limit = device.limit;
    logical.reserve = device.reserve;
    logical.options = plan.options;
    logical.options.ordinal = plan.card;
    logical.options.limit = device.limit;
    std::shared_ptr<pool::ElasticBudget::Member> member;
    if (shared != nullptr) {
      auto joined = shared->add_member(device.reserve.value_or(0), device.limit);
      if (!joined)
        return Fault{FaultKind::kInvalidArgument, short_name(plan.card) + ": " + joined.error()};
      member = std::move(*joined);
    }
    logical.options.budget = member;
    auto memory = make_memory(logical.device.name, logical.options);
    if (!memory) return memory.error();
    logical.memory = std::move(*memory);
    if (member != nullptr) {
      // The pool owns the member: the trim must not own the pool.
      member->set_trim([pool = std::weak_ptr<Memory>(logical.memory)](std::uint64_t keep) {
        if (const auto alive = pool.lock()) static_cast<void>(alive->trim(keep));
      });
    }
    // Kept by the pool alone.
    logical.options.budget = nullptr;
    if (const Outcome fine = preallocate(logical, environment); !fine) return fine.error();
    made.push_back(std::move(logical));
  }
  return made;
}

Result<std::shared_ptr<Memory>> Runtime::make_memory(const std::string& name,
                                                     const pool::Options& options) {
  pool::Options watched = options;
  auto watch = std::make_shared<GrowthWatch>(options.budget);
  watched.budget = watch;
  auto pool = host_.make_pool(*driver_, watched);
  if (!pool) return pool_fault(name, pool.error());
  return std::make_shared<Memory>(name, std::move(*pool), std::move(watch), host_.now_ms);
}

// TensorFlow's way to make the driver's pool hold memory from the start: take it once.
Outcome Runtime::preallocate(const Logical& made, const Environment& environment) {
  if (!environment.driver_async || !environment.preallocate || *environment.preallocate == 0) {
    return Done{};
  }
  const std::uint64_t bytes = *environment.preallocate < 0
                                  ? made.limit
                                  : static_cast<std::uint64_t>(*environment.preallocate);
  const Result<CUdeviceptr> taken = made.memory->allocate(bytes, nullptr);
  return taken ? made.memory->free(*taken, nullptr) : Outcome(taken.error());
}

Result<std::shared_ptr<Memory>> Runtime::cpu_memory() {
  if (cpu_memory_ != nullptr) return cpu_memory_;
  if (driver_ == nullptr || cards_.empty()) {
    return Fault{FaultKind::kInternal,
                 "/device:CPU:0: pinned host memory comes from the GPU's driver, and there is no "
                 "GPU; see diagnostics()"};
  }
  const Result<Environment> environment = this->environment();
  if (!environment) return environment.error();
  pool::Options options;
  options.kind = pool::Kind::kHost;
  options.limit = environment->host_limit;
  const std::vector<int> seen = world().visible;
  options.ordinal = seen.empty() ? 0 : seen.front();
  auto memory = make_memory("/device:CPU:0", options);
  if (memory) cpu_memory_ = *memory;
  return memory;
}

int Runtime::cpu_count() const {
  const auto split = settings_.split.find(kCpu);
  if (split != settings_.split.end()) {
    return static_cast<int>(std::max<std::size_t>(1, split->second.size()));
  }
  return settings_.imported ? std::max(1, device_count(*settings_.imported, "CPU", 1)) : 1;
}

std::vector<LogicalDevice> Runtime::logical_cpus(int count) const {
  std::vector<LogicalDevice> devices;
  for (int i = 0; i < count; ++i) devices.push_back({"/device:CPU:" + std::to_string(i), "CPU", 0});
  return devices;
}

Result<std::vector<LogicalDevice>> Runtime::list_logical_devices(std::string_view type,
                                                                 const char* call) {
  const std::scoped_lock lock(mutex_);
  if (const Outcome fine = ready(call); !fine) return fine.error();
  std::vector<LogicalDevice> devices;
  if (type.empty() || type == "CPU") devices = logical_cpus(cpu_count());
  for (const Logical& gpu : gpus_) {
    if (type.empty() || type == "GPU") devices.push_back(gpu.device);
  }
  return devices;
}

Result<std::vector<LogicalDevice>> Runtime::logical_devices_of(const PhysicalDevice& device) {
  const std::scoped_lock lock(mutex_);
  const Result<int> place = place_of(device);
  if (!place) return place.error();
  if (const Outcome fine = ready("logical_devices_of()"); !fine) return fine.error();
  if (*place == kCpu) return logical_cpus(cpu_count());
  std::vector<LogicalDevice> devices;
  for (const Logical& gpu : gpus_) {
    if (gpu.card == *place) devices.push_back(gpu.device);
  }
  return devices;
}

Result<const Logical*> Runtime::find_logical(const LogicalDevice& device) {
  for (const Logical& gpu : gpus_) {
    if (gpu.device.name == device.name && device.device_type == "GPU") return &gpu;
  }
  const auto cpus = logical_cpus(cpu_count());
  if (device.device_type == "CPU" && std::any_of(cpus.begin(), cpus.end(), [&](const auto& cpu) {
        return cpu.name == device.name;
      })) {
    return static_cast<const Logical*>(nullptr);
  }
  return Fault{FaultKind::kValue, "Unrecognized device: " + device.name +
                                      "; list_logical_devices() has the ones there are"};
}

Result<PhysicalDevice> Runtime::physical_device_of(const LogicalDevice& device) {
  const std::scoped_lock lock(mutex_);
  if (const Outcome fine = ready("physical_device_of()"); !fine) return fine.error();
  const Result<const Logical*> found = find_logical(device);
  if (!found) return found.error();
  return physical_device(*found == nullptr ? kCpu : (*found)->card);
}

Result<std::shared_ptr<Memory>> Runtime::memory(const LogicalDevice& device, const char* call) {
  const std::scoped_lock lock(mutex_);
  if (const Outcome fine = ready(call); !fine) return fine.error();
  const Result<const Logical*> found = find_logical(device);
  if (!found) return found.error();
  return *found == nullptr ? cpu_memory() : Result<std::shared_ptr<Memory>>((*found)->memory);
}

Result<std::shared_ptr<Memory>> Runtime::memory(std::string_view name, const char* call) {
  const std::scoped_lock lock(mutex_);
  if (const Outcome fine = ready(call); !fine) return fine.error();
  SessionDevices all;
  all.soft_placement = settings_.soft_placement;
  all.cpus = cpu_count();
  for (std::size_t i = 0; i < gpus_.size(); ++i) all.gpus.push_back(i);
  return device_memory(all, name);
}

Result<std::shared_ptr<Memory>> Runtime::device_memory(const SessionDevices& among,
                                                       std::string_view name) {
  const auto parsed = parse_device_name(name);
  if (!parsed) {
    return Fault{FaultKind::kValue,
                 "'" + std::string(name) + "' is no name of a device; write GPU:0 or CPU:0"};
  }
  const bool gpu = parsed->type == "GPU";
  const std::size_t count = gpu ? among.gpus.size() : static_cast<std::size_t>(among.cpus);
  if (!parsed->index && count > 1) {
    return Fault{FaultKind::kValue, "'" + std::string(name) + "' may be any of " +
                                        std::to_string(count) + " devices; write " + parsed->type +
                                        ":0"};
  }
  const auto index = static_cast<std::size_t>(parsed->index.value_or(0));
  if (index < count) {
    return gpu ? Result<std::shared_ptr<Memory>>(gpus_[among.gpus[index]].memory) : cpu_memory();
  }
  if (among.soft_placement) return cpu_memory();
  return Fault{FaultKind::kInvalidArgument,
               "there is no device " + parsed->type + ":" + std::to_string(index) + " among " +
                   std::to_string(count) + "; allow soft placement to use the CPU instead"};
}

Result<std::shared_ptr<Memory>> Runtime::gpu_memory(std::string_view name, const char* call) {
  const auto parsed = parse_device_name(name);
  if (!parsed || parsed->type != "GPU") {
    return Fault{FaultKind::kValue, "'" + std::string(name) +
                                        "' has no memory statistics; name a " + "GPU, like GPU:0"};
  }
  const std::scoped_lock lock(mutex_);
  if (const Outcome fine = ready(call); !fine) return fine.error();
  const auto index = static_cast<std::size_t>(parsed->index.value_or(0));
  if (!parsed->index && gpus_.size() > 1) {
    return Fault{FaultKind::kValue, "'" + std::string(name) + "' may be any of " +
                                        std::to_string(gpus_.size()) + " devices; write GPU:0"};
  }
  if (index < gpus_.size()) return gpus_[index].memory;
  return Fault{FaultKind::kValue, "there is no device GPU:" + std::to_string(index) + " among " +
                                      std::to_string(gpus_.size())};
}

}  // namespace vram::config
