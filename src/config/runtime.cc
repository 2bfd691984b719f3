#include "config/runtime.h"

#include <algorithm>

namespace vram::config {
namespace {

bool wanted_type(const std::string& type, std::string_view wanted) {
  return wanted.empty() || type == wanted;
}

std::vector<PhysicalDevice> of_type(const std::vector<PhysicalDevice>& devices,
                                    std::string_view type) {
  std::vector<PhysicalDevice> chosen;
  for (const PhysicalDevice& device : devices) {
    if (wanted_type(device.device_type, type)) chosen.push_back(device);
  }
  return chosen;
}

Fault unrecognized(const std::string& name) {
  return {FaultKind::kValue,
          "Unrecognized device: " + name + "; list_physical_devices() has the ones there are"};
}

}  // namespace

void Runtime::note(const std::string& line) {
  if (std::find(diagnostics_.begin(), diagnostics_.end(), line) == diagnostics_.end()) {
    diagnostics_.push_back(line);
  }
}

void Runtime::note(const std::vector<std::string>& lines) {
  for (const std::string& line : lines) note(line);
}

Outcome Runtime::set_mode(Mode mode) {
  const std::scoped_lock lock(mutex_);
  const bool fixed = !settings_.empty() || !first_by_.empty();
  if (fixed && mode_ != mode) {
    return Fault{FaultKind::kRuntime,
                 "the mode is fixed once a setting was made or a device used; call set_mode first"};
  }
  mode_ = mode;
  return Done{};
}

Result<Mode> Runtime::mode() {
  const std::scoped_lock lock(mutex_);
  return mode_ ? Result<Mode>(*mode_) : mode_of_environment(host_.variable);
}

Outcome Runtime::start() {
  if (!mode_) {
    const Result<Mode> mode = mode_of_environment(host_.variable);
    if (!mode) return mode.error();
    mode_ = *mode;
  }
  if (started_) return Done{};
  const auto driver = host_.driver();
  if (!driver) {
    note("no GPU: " + driver.error().message);
    started_ = true;
    return Done{};
  }
  Result<std::vector<Card>> cards = list_cards(**driver);
  if (!cards) return cards.error();
  driver_ = *driver;
  cards_ = std::move(*cards);
  started_ = true;
  const auto hidden = host_.variable("CUDA_VISIBLE_DEVICES");
  if (cards_.empty()) {
    note(hidden ? "no GPU: CUDA_VISIBLE_DEVICES='" + *hidden + "' hides all, or names none there is"
                : "no GPU: the driver has no device");
  }
  return Done{};
}

std::vector<PhysicalDevice> Runtime::physical() const {
  std::vector<PhysicalDevice> devices{physical_device(kCpu)};
  for (const Card& card : cards_) devices.push_back(physical_device(card.ordinal));
  return devices;
}

std::vector<PhysicalDevice> Runtime::visible() const {
  return settings_.visible.value_or(physical());
}

World Runtime::world() const {
  World world{cards_, settings_, {}, host_.lowest_priority, host_.highest_priority};
  const std::vector<PhysicalDevice> seen = visible();
  std::vector<std::pair<std::ptrdiff_t, int>> ranked;
  for (const Card& card : cards_) {
    const auto at = std::find(seen.begin(), seen.end(), physical_device(card.ordinal));
    if (at == seen.end()) continue;
    // TensorFlow 2 keeps the driver's order, whatever the order of the setting.
    const bool kept = started_mode() == Mode::kCompat;
    ranked.emplace_back(kept ? card.ordinal : at - seen.begin(), card.ordinal);
  }
  std::sort(ranked.begin(), ranked.end());
  for (const auto& [rank, ordinal] : ranked) world.visible.push_back(ordinal);
  return world;
}

Result<int> Runtime::place_of(const PhysicalDevice& device) {
  if (const Outcome fine = start(); !fine) return fine.error();
  const std::vector<PhysicalDevice> all = physical();
  const auto found = std::find(all.begin(), all.end(), device);
  if (found == all.end()) return unrecognized(device.name);
  return static_cast<int>(found - all.begin()) - 1;
}

Result<Environment> Runtime::environment() {
  Result<Environment> environment = read_environment(host_.variable, started_mode());
  if (!environment) return environment;
  note(environment->diagnostics);
  const std::vector<int>& ids = environment->gpu_ids;
  if (ids.empty() || settings_.visible) return environment;
  std::vector<PhysicalDevice> chosen{physical_device(kCpu)};
  for (const int id : ids) {
    if (id >= static_cast<int>(cards_.size())) {
      return Fault{FaultKind::kInvalidArgument, "GPU_ID: there is no GPU " + std::to_string(id) +
                                                    " among " + std::to_string(cards_.size()) +
                                                    "; numbers are those after "
                                                    "CUDA_VISIBLE_DEVICES"};
    }
    chosen.push_back(physical_device(id));
  }
  settings_.visible = chosen;
  return environment;
}

Outcome Runtime::check_environment() {
  // TensorFlow looks at its variables when it makes the devices, not before.
  if (started_mode() == Mode::kCompat) return Done{};
  const Result<Environment> fine = environment();
  return fine ? Outcome(Done{}) : Outcome(fine.error());
}

std::optional<std::string> Runtime::locked_by(std::optional<int> place) const {
  if (!v2_by_.empty()) return v2_by_;
  // TensorFlow lets v2 settings change after a v1 session; they have no effect.
  if (started_mode() == Mode::kCompat || !place) return {};
  const auto claim = claims_.find(*place);
  return claim == claims_.end() ? std::nullopt : std::optional(claim->second.by);
}

Outcome Runtime::locked(const std::string& thing, const std::string& by) const {
  return Fault{FaultKind::kRuntime, thing + " cannot be modified after being initialized, which " +
                                        by + " did; configure before it"};
}

Result<std::vector<PhysicalDevice>> Runtime::list_physical_devices(std::string_view type) {
  const std::scoped_lock lock(mutex_);
  if (const Outcome fine = start(); !fine) return fine.error();
  return of_type(physical(), type);
}

Result<DeviceDetails> Runtime::device_details(const PhysicalDevice& device) {
  const std::scoped_lock lock(mutex_);
  const Result<int> place = place_of(device);
  if (!place) return place.error();
  DeviceDetails details;
  if (*place == kCpu) return details;
  const Card& card = cards_[static_cast<std::size_t>(*place)];
  details.device_name = card.name;
  details.compute_capability_major = card.major;
  details.compute_capability_minor = card.minor;
  details.total_memory = Bytes::of(card.total);
  details.uuid = card.uuid;
  details.pci_bus_id = card.pci_bus_id;
  return details;
}

Result<std::vector<PhysicalDevice>> Runtime::visible_devices(std::string_view type) {
  const std::scoped_lock lock(mutex_);
  if (const Outcome fine = start(); !fine) return fine.error();
  if (const Outcome fine = check_environment(); !fine) return fine.error();
  return of_type(visible(), type);
}

Outcome Runtime::set_visible_devices(const std::vector<PhysicalDevice>& devices,
                                     std::string_view type) {
  const std::scoped_lock lock(mutex_);
  for (const PhysicalDevice& device : devices) {
    if (const Result<int> place = place_of(device); !place) return place.error();
    if (!wanted_type(device.device_type, type)) return unrecognized(device.name);
  }
  if (const Outcome fine = start(); !fine) return fine;
  if (const Outcome fine = check_environment(); !fine) return fine;
  if (const Outcome fine = rules_of(*mode_).visible(world(), devices); !fine) return fine;
  std::vector<PhysicalDevice> seen;
  if (!type.empty()) {
    for (const PhysicalDevice& device : visible()) {
      if (device.device_type != type) seen.push_back(device);
    }
  }
  seen.insert(seen.end(), devices.begin(), devices.end());
  if (seen == visible()) return Done{};
  if (const auto by = locked_by({})) return locked("Visible devices", *by);
  settings_.visible = std::move(seen);
  return Done{};
}

Outcome Runtime::set_memory_growth(const PhysicalDevice& device, bool enable) {
  const std::scoped_lock lock(mutex_);
  const Result<int> place = place_of(device);
  if (!place) return place.error();
  if (const Outcome fine = check_environment(); !fine) return fine;
  if (const Outcome fine = rules_of(*mode_).growth(world(), *place, enable); !fine) return fine;
  const auto known = settings_.growth.find(*place);
  if (known != settings_.growth.end() && known->second == enable) return Done{};
  if (const auto by = locked_by(*place)) return locked("Memory growth of " + device.name, *by);
  settings_.growth[*place] = enable;
  return Done{};
}

Result<std::optional<bool>> Runtime::memory_growth(const PhysicalDevice& device) {
  const std::scoped_lock lock(mutex_);
  const Result<int> place = place_of(device);
  if (!place) return place.error();
  const auto known = settings_.growth.find(*place);
  return known == settings_.growth.end() ? std::nullopt : std::optional(known->second);
}

Outcome Runtime::set_memory_limit(const PhysicalDevice& device, Size limit) {
  const std::scoped_lock lock(mutex_);
  const Result<int> place = place_of(device);
  if (!place) return place.error();
  if (const Outcome fine = check_environment(); !fine) return fine;
  if (const Outcome fine = rules_of(*mode_).limit(world(), *place, limit); !fine) return fine;
  const auto known = settings_.limit.find(*place);
  if (known != settings_.limit.end() && known->second == limit) return Done{};
  if (const auto by = locked_by(*place)) return locked("The memory limit of " + device.name, *by);
  settings_.limit.insert_or_assign(*place, limit);
  return Done{};
}

Result<std::optional<Bytes>> Runtime::memory_limit(const PhysicalDevice& device) {
  const std::scoped_lock lock(mutex_);
  const Result<int> place = place_of(device);
  if (!place) return place.error();
  const auto known = settings_.limit.find(*place);
  if (known == settings_.limit.end()) return std::optional<Bytes>();
  const std::uint64_t total = cards_[static_cast<std::size_t>(*place)].total;
  return std::optional(known->second.on(Bytes::of(total)));
}

Outcome Runtime::set_logical_device_configuration(const PhysicalDevice& device,
                                                  const Parts& parts) {
  const std::scoped_lock lock(mutex_);
  const Result<int> place = place_of(device);
  if (!place) return place.error();
  if (const Outcome fine = check_environment(); !fine) return fine;
  if (const Outcome fine = rules_of(*mode_).split(world(), *place, parts); !fine) return fine;
  const auto known = settings_.split.find(*place);
  if (known != settings_.split.end() && known->second == parts) return Done{};
  if (const auto by = locked_by(*place)) return locked("Logical devices of " + device.name, *by);
  settings_.split[*place] = parts;
  return Done{};
}

Result<std::optional<Parts>> Runtime::logical_device_configuration(const PhysicalDevice& device) {
  const std::scoped_lock lock(mutex_);
  const Result<int> place = place_of(device);
  if (!place) return place.error();
  const auto known = settings_.split.find(*place);
  return known == settings_.split.end() ? std::nullopt : std::optional(known->second);
}

Outcome Runtime::set_soft_device_placement(bool enabled) {
  const std::scoped_lock lock(mutex_);
  settings_.soft_placement = enabled;
  return Done{};
}

bool Runtime::soft_device_placement() {
  const std::scoped_lock lock(mutex_);
  return settings_.soft_placement;
}

Result<Snapshot> Runtime::snapshot() {
  const std::scoped_lock lock(mutex_);
  if (const Outcome fine = start(); !fine) return fine.error();
  if (const Outcome fine = check_environment(); !fine) return fine.error();
  return Snapshot{*mode_, cards_, world().visible, settings_, first_by_, gpus_, diagnostics_};
}

}  // namespace vram::config
