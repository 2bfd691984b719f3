// Checks of the strict mode: everything that the call alone, or with what was said before, gets
// wrong.

#include <algorithm>

#include "base/size_text.h"
#include "config/rules.h"
#include "config/strict_plan.h"

namespace vram::config {
namespace {

Fault value_fault(std::string message) { return {FaultKind::kValue, std::move(message)}; }

std::string text(std::uint64_t bytes) { return base::format_bytes(bytes).text; }

// What the devices of the card may have together, by what was said so far.
std::uint64_t total_of(const World& world, int gpu) {
  const Bytes total = Bytes::of(world.cards[static_cast<std::size_t>(gpu)].total);
  const auto limit = world.settings.limit.find(gpu);
  return limit == world.settings.limit.end() ? total.count() : limit->second.on(total).count();
}

bool greedy(const World& world, int gpu) {
  const auto growth = world.settings.growth.find(gpu);
  return growth != world.settings.growth.end() && !growth->second;
}

// The world as it would be with one change.
template <typename Change>
Outcome check_with(const World& world, int gpu, Change change) {
  Settings settings = world.settings;
  change(&settings);
  const World after{world.cards, settings, world.visible, world.lowest_priority,
                    world.highest_priority};
  const auto wrong = wrong_split(short_name(gpu), settings_wish(after, gpu).parts,
                                 total_of(after, gpu), greedy(after, gpu));
  if (wrong) return value_fault(*wrong);
  return Done{};
}

Outcome check_cpu_parts(const Parts& parts) {
  for (const LogicalDeviceConfiguration& part : parts) {
    if (part.memory_limit || part.reserve || part.priority) {
      return value_fault("CPU:0 cannot be limited; leave memory_limit, reserve and priority out");
    }
  }
  return Done{};
}

Outcome check_priorities(const World& world, int gpu, const Parts& parts) {
  const auto has = [](const LogicalDeviceConfiguration& part) { return part.priority.has_value(); };
  if (std::any_of(parts.begin(), parts.end(), has) &&
      !std::all_of(parts.begin(), parts.end(), has)) {
    return value_fault(short_name(gpu) +
                       ": priority must be specified for all logical devices, or for none");
  }
  for (const LogicalDeviceConfiguration& part : parts) {
    if (!part.priority) continue;
    if (*part.priority > world.lowest_priority || *part.priority < world.highest_priority) {
      return Fault{FaultKind::kInvalidArgument,
                   short_name(gpu) + ": priority " + std::to_string(*part.priority) +
                       " is none of the card's; use " + std::to_string(world.highest_priority) +
                       " (first) to " + std::to_string(world.lowest_priority)};
    }
  }
  return Done{};
}

class StrictRules : public Rules {
 public:
  Outcome visible(const World& /*world*/,
                  const std::vector<PhysicalDevice>& wanted) const override {
    for (auto device = wanted.begin(); device != wanted.end(); ++device) {
      if (std::find(wanted.begin(), device, *device) != device) {
        return value_fault(device->name + " is listed twice; list each device once");
      }
    }
    return Done{};
  }

  Outcome growth(const World& world, int place, bool enable) const override {
    if (place == kCpu) return value_fault("CPU:0 has no memory growth; set it on GPUs only");
    return check_with(world, place, [&](Settings* to) { to->growth[place] = enable; });
  }

  Outcome limit(const World& world, int place, Size wanted) const override {
    if (place == kCpu) return value_fault("CPU:0 cannot be limited; set limits on GPUs only");
    const std::uint64_t total = world.cards[static_cast<std::size_t>(place)].total;
    const std::uint64_t bytes = wanted.on(Bytes::of(total)).count();
    if (bytes == 0) {
      return value_fault(short_name(place) +
                         ": a limit of 0 bytes is no memory at all; to hide "
                         "the device use set_visible_devices");
    }
    if (bytes > total) {
      return value_fault(short_name(place) + ": a limit of " + text(bytes) + " is more than the " +
                         text(total) + " of the card; use less, or a percentage");
    }
    return check_with(world, place,
                      [&](Settings* to) { to->limit.insert_or_assign(place, wanted); });
  }

  Outcome split(const World& world, int place, const Parts& parts) const override {
    if (place == kCpu) return check_cpu_parts(parts);
    for (const LogicalDeviceConfiguration& part : parts) {
      if (!part.memory_limit && !part.reserve) {
        return value_fault(short_name(place) +
                           ": a logical device needs a memory_limit, a reserve, or both");
      }
    }
    if (const Outcome fine = check_priorities(world, place, parts); !fine) return fine;
    return check_with(world, place, [&](Settings* to) { to->split[place] = parts; });
  }
};

}  // namespace

const Rules& strict_rules() {
  static const StrictRules rules;
  return rules;
}

}  // namespace vram::config
