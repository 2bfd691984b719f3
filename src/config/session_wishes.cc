#include <cmath>
#include <limits>

#include "base/size_text.h"
#include "config/limit_rules.h"
#include "config/strict_plan.h"
#include "config/v1_options.h"

namespace vram::config {
namespace {

using compat::v1::ConfigProto;
using compat::v1::GPUOptions;

Fault invalid(std::string message) { return {FaultKind::kInvalidArgument, std::move(message)}; }

Outcome check_fraction(const GPUOptions& options) {
  const double fraction = options.per_process_gpu_memory_fraction;
  const std::string said = "per_process_gpu_memory_fraction=" + std::to_string(fraction);
  if (!std::isfinite(fraction) || fraction < 0) {
    return invalid(said + " is no share of a card; use more than 0 and at most 1");
  }
  if (fraction > 1 && !options.experimental.use_unified_memory) {
    return invalid(said +
                   " is more than the whole card; use at most 1, or use_unified_memory to "
                   "oversubscribe it");
  }
  if (fraction == 0) return Done{};
  if (options.experimental.gpu_system_memory_size_in_mb != 0) {
    return invalid(
        "gpu_system_memory_size_in_mb and per_process_gpu_memory_fraction both say how "
        "much to take; give one of them");
  }
  if (!options.experimental.virtual_devices.empty()) {
    return invalid(
        "It's invalid to set per_process_gpu_memory_fraction when virtual_devices is "
        "set; give one of them");
  }
  return Done{};
}

Outcome check_options(const ConfigProto& config, int cards) {
  const GPUOptions& options = config.gpu_options;
  for (const auto& [type, count] : config.device_count) {
    if (type != "GPU" && type != "CPU") {
      return invalid("device_count: there is no device type '" + type + "'; use GPU or CPU");
    }
    if (count < 0 || (type == "GPU" && count > cards)) {
      return invalid("device_count: " + std::to_string(count) + " " + type + "s of " +
                     std::to_string(type == "GPU" ? cards : 1) + "; use what there is, or less");
    }
  }
  if (const Outcome fine = check_allocator_type(options.allocator_type); !fine) return fine;
  if (const Outcome fine = check_fraction(options); !fine) return fine;
  if (options.experimental.gpu_system_memory_size_in_mb < 0) {
    return invalid("gpu_system_memory_size_in_mb is negative; use MiB to leave alone, or 0");
  }
  const int equal = options.experimental.num_virtual_devices_per_gpu;
  if (equal < 0 || (equal > 1 && !options.experimental.virtual_devices.empty())) {
    return invalid(equal < 0 ? "num_virtual_devices_per_gpu is negative; use 1 or more"
                             : "num_virtual_devices_per_gpu and virtual_devices both split the "
                               "GPUs; give one of them");
  }
  return Done{};
}

Result<std::vector<DevicePlan>> parts_of(const World& world, int gpu,
                                         const GPUOptions::Experimental::VirtualDevices& entry,
                                         bool greedy) {
  const Outcome fine = check_priorities(entry, gpu, world.lowest_priority, world.highest_priority);
  if (!fine) return fine.error();
  std::vector<DevicePlan> parts;
  for (const float mib : entry.memory_limit_mb) {
    // Above 2^40 MiB nothing is a card, and the conversion stays defined.
    if (!(mib >= 1) || mib > 1e12F) {
      return invalid(short_name(gpu) + ": memory_limit_mb=" + std::to_string(mib) +
                     " is no limit; use 1 MiB or more");
    }
    DevicePlan device;
    device.limit = static_cast<std::uint64_t>(virtual_device_limit(mib));
    if (!entry.priority.empty()) device.priority = entry.priority[parts.size()];
    parts.push_back(device);
  }
  const std::uint64_t total = world.cards[static_cast<std::size_t>(gpu)].total;
  if (const auto wrong = wrong_split(short_name(gpu), parts, total, greedy)) return invalid(*wrong);
  return parts;
}

}  // namespace

Result<std::vector<CardWish>> session_wishes(const World& world, const ConfigProto& config) {
  const GPUOptions& options = config.gpu_options;
  const int cards = static_cast<int>(world.cards.size());
  if (const Outcome fine = check_options(config, cards); !fine) return fine.error();
  std::vector<int> order = world.visible;
  if (!options.visible_device_list.empty()) {
    auto listed = parse_visible_device_list(options.visible_device_list, cards);
    if (!listed) return listed.error();
    order = std::move(*listed);
  }
  const auto most =
      static_cast<std::size_t>(device_count(config, "GPU", std::numeric_limits<int>::max()));
  if (order.size() > most) order.resize(most);
  const auto& entries = options.experimental.virtual_devices;
  if (!entries.empty() && entries.size() != order.size()) {
    return Fault{
        options.visible_device_list.empty() ? FaultKind::kUnknown : FaultKind::kInvalidArgument,
        "virtual_devices has " + std::to_string(entries.size()) + " entries for " +
            std::to_string(order.size()) + " GPUs; give one for each GPU that the session sees"};
  }
  std::vector<CardWish> wishes;
  for (std::size_t i = 0; i < order.size(); ++i) {
    CardWish wish;
    wish.card = order[i];
    wish.growth = options.allow_growth;
    wish.managed = options.experimental.use_unified_memory;
    wish.equal_parts = std::max(1, options.experimental.num_virtual_devices_per_gpu);
    wish.system_mib = options.experimental.gpu_system_memory_size_in_mb;
    const double fraction = options.per_process_gpu_memory_fraction;
    if (fraction != 0) {
      const auto total = world.cards[static_cast<std::size_t>(wish.card)].total;
      wish.limit = static_cast<std::uint64_t>(static_cast<double>(total) * fraction);
    }
    if (!entries.empty()) {
      auto parts = parts_of(world, wish.card, entries[i], wish.growth == false);
      if (!parts) return parts.error();
      wish.parts = std::move(*parts);
    }
    wishes.push_back(std::move(wish));
  }
  return wishes;
}

}  // namespace vram::config
