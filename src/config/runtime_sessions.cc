// Sessions in TensorFlow 1's style, and its options as the base of the v2 settings.

#include <algorithm>
#include <charconv>
#include <set>

#include "config/compat_plan.h"
#include "config/runtime.h"
#include "config/v1_options.h"

namespace vram::config {

using compat::v1::ConfigProto;

Result<Runtime::SessionDevices> Runtime::open_session(const ConfigProto& config) {
  const std::scoped_lock lock(mutex_);
  if (const Outcome fine = start(); !fine) return fine.error();
  const Result<Environment> environment = this->environment();
  if (!environment) return environment.error();
  SessionDevices session;
  session.number = sessions_ + 1;
  session.soft_placement = config.allow_soft_placement;
  session.cpus = std::max(1, device_count(config, "CPU", 1));
  const std::string by = "session " + std::to_string(session.number);
  Result<std::vector<std::size_t>> joined = std::vector<std::size_t>{};
  if (*mode_ == Mode::kCompat) {
    auto plans =
        compat_plan(world(), config, *environment, [this](int card) { return card_memory(card); });
    if (!plans) return plans.error();
    joined = join_compat(*plans);
  } else {
    auto wishes = session_wishes(world(), config);
    if (!wishes) return wishes.error();
    joined = join_strict(*wishes, by);
  }
  if (!joined) return joined.error();
  session.gpus = std::move(*joined);
  ++sessions_;
  if (first_by_.empty()) first_by_ = by;
  return session;
}

std::vector<LogicalDevice> Runtime::session_list(const SessionDevices& session) {
  const std::scoped_lock lock(mutex_);
  std::vector<LogicalDevice> devices = logical_cpus(session.cpus);
  for (const std::size_t gpu : session.gpus) devices.push_back(gpus_[gpu].device);
  return devices;
}

Result<std::shared_ptr<Memory>> Runtime::session_memory(const SessionDevices& session,
                                                        std::string_view name) {
  const std::scoped_lock lock(mutex_);
  return device_memory(session, name);
}

void Runtime::close_session(const SessionDevices& session) {
  std::vector<std::shared_ptr<Memory>> idle;
  {
    const std::scoped_lock lock(mutex_);
    if (*mode_ == Mode::kCompat) return;
    for (const std::size_t gpu : session.gpus) idle.push_back(gpus_[gpu].memory);
  }
  // Giving back may take a while; nobody waits for the mutex meanwhile.
  for (const auto& memory : idle) memory->trim(0);
}

Outcome Runtime::import_config(const ConfigProto& config) {
  const std::scoped_lock lock(mutex_);
  if (const Outcome fine = start(); !fine) return fine;
  if (!v2_by_.empty()) return locked("The configuration", v2_by_);
  std::vector<int> seen;
  const int cards = static_cast<int>(cards_.size());
  if (*mode_ == Mode::kStrict) {
    const auto wishes = session_wishes(world(), config);
    if (!wishes) return wishes.error();
    for (const CardWish& wish : *wishes) seen.push_back(wish.card);
  } else if (cards > 0) {
    const auto listed = parse_visible_device_list(config.gpu_options.visible_device_list, cards);
    // TensorFlow reads the list in Python here, and raises Python's error.
    if (!listed)
      return Fault{FaultKind::kValue, "Invalid visible device index: " + listed.error().message};
    seen = *listed;
    const int most = device_count(config, "GPU", cards);
    if (most >= 0 && most < static_cast<int>(seen.size()))
      seen.resize(static_cast<std::size_t>(most));
  }
  settings_.imported = config;
  if (cards == 0) return Done{};
  std::vector<PhysicalDevice> devices{physical_device(kCpu)};
  for (const int card : seen) devices.push_back(physical_device(card));
  settings_.visible = std::move(devices);
  return Done{};
}

}  // namespace vram::config
