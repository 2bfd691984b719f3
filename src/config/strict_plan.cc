#include "config/strict_plan.h"

#include <algorithm>
#include <utility>

#include "base/size_text.h"
#include "config/limit_rules.h"

namespace vram::config {
namespace {

std::string text(std::uint64_t bytes) { return base::format_bytes(bytes).text; }

bool elastic(const std::vector<DevicePlan>& parts) {
  return std::any_of(parts.begin(), parts.end(), [](const auto& part) { return part.reserve; });
}

pool::Options pool_options(const CardWish& wish, const Environment& environment) {
  pool::Options pool;
  const std::optional<bool> growth =
      environment.force_growth ? environment.force_growth : wish.growth;
  pool.growth = growth.value_or(true);
  pool.garbage_collection = environment.garbage_collection;
  pool.managed = wish.managed || environment.unified;
  if (pool.managed || !pool.growth) pool.kind = pool::Kind::kBfc;
  if (environment.driver_async) pool.kind = pool::Kind::kDriverAsync;
  return pool;
}

Outcome check_combination(const CardWish& wish, const Card& card, const pool::Options& pool) {
  const std::string name = short_name(card.ordinal);
  if (pool.managed && pool.kind == pool::Kind::kDriverAsync) {
    return Fault{FaultKind::kInvalidArgument,
                 name +
                     ": TF_GPU_ALLOCATOR=cuda_malloc_async has no managed memory; unset it, or "
                     "do without unified memory"};
  }
  if (pool.managed) {
    if (const Outcome fine = check_managed(card); !fine) return fine;
  }
  if (elastic(wish.parts) && pool.kind != pool::Kind::kSegments) {
    return Fault{FaultKind::kInvalidArgument,
                 name +
                     ": reserves need a pool that gives back; leave out greedy growth, managed "
                     "memory and TF_GPU_ALLOCATOR, or the reserves"};
  }
  return Done{};
}

// What the devices of the card share when nobody said a limit.
Result<std::uint64_t> default_limit(const CardWish& wish, const Card& card,
                                    const Environment& environment, const MemoryOf& memory_of) {
  const Result<CardMemory> memory = memory_of(card.ordinal);
  if (!memory) return memory.error();
  if (environment.unified) return memory->total;
  const LimitAnswer answer =
      single_device_limit(card, *memory, {0, wish.system_mib, environment.system_mib});
  if (!answer.ignored.empty()) return Fault{FaultKind::kInvalidArgument, answer.ignored.front()};
  return static_cast<std::uint64_t>(answer.bytes);
}

void note_overrides(const CardWish& wish, const Environment& environment, CardPlan* plan) {
  const std::string name = short_name(wish.card);
  if (environment.force_growth && wish.growth && *environment.force_growth != *wish.growth) {
    plan->notes.push_back("TF_FORCE_GPU_ALLOW_GROWTH overrides the growth set for " + name);
  }
  if (wish.limit && environment.system_mib) {
    plan->notes.push_back("TF_DEVICE_MIN_SYS_MEMORY_IN_MB has no effect on " + name +
                          ": its limit was set");
  }
}

Fault over_cap(const std::string& name, std::uint64_t asked, std::uint64_t cap,
               const Environment& environment) {
  const bool process = environment.process_limit && *environment.process_limit == cap;
  return {FaultKind::kInvalidArgument,
          name + ": " + text(asked) + " was asked for, and " +
              (process ? "PER_PROCESS_GPU_MEMORY" : "TF_PER_DEVICE_MEMORY_LIMIT_MB") + " allows " +
              text(cap) + "; use less, or raise the variable"};
}

std::uint64_t promised(const std::vector<DevicePlan>& parts) {
  std::uint64_t sum = 0;
  for (const DevicePlan& part : parts) sum += part.reserve.value_or(part.limit);
  return sum;
}

}  // namespace

bool CardWish::silent() const {
  return !growth && !limit && parts.empty() && equal_parts <= 1 && system_mib == 0 && !managed;
}

bool CardWish::same(const CardWish& other) const {
  const auto equal = [](const DevicePlan& a, const DevicePlan& b) {
    return a.limit == b.limit && a.reserve == b.reserve && a.priority == b.priority;
  };
  return growth == other.growth && limit == other.limit && system_mib == other.system_mib &&
         managed == other.managed && equal_parts == other.equal_parts &&
         std::equal(parts.begin(), parts.end(), other.parts.begin(), other.parts.end(), equal);
}

std::optional<std::string> wrong_split(const std::string& who, const std::vector<DevicePlan>& parts,
                                       std::uint64_t total, bool greedy) {
  const bool shares = elastic(parts);
  if (shares && greedy) {
    return who +
           ": reserves and greedy memory contradict each other, since what is taken at once "
           "is lent to nobody; leave out the reserves, or set_memory_growth(device, false)";
  }
  std::uint64_t left = total;
  for (const DevicePlan& part : parts) {
    if (part.limit == 0) return who + ": a limit of 0 bytes is no memory at all; use 1_MiB or more";
    if (part.limit > total) {
      return who + ": a limit of " + text(part.limit) + " is more than the " + text(total) +
             " of the card; use less, or a percentage";
    }
    if (shares && !part.reserve) {
      return who +
             ": some of its devices have a reserve and some have none; give each one, 0_MiB "
             "included";
    }
    if (part.reserve && *part.reserve > part.limit) {
      return who + ": a reserve of " + text(*part.reserve) + " is above its limit of " +
             text(part.limit) + "; raise the limit";
    }
    const std::uint64_t firm = part.reserve.value_or(part.limit);
    if (firm > left) {
      return who + ": its devices were promised more than the " + text(total) + " it has (" +
             text(firm) + " where " + text(left) + " are left); use smaller " +
             (shares ? "reserves" : "limits, or reserves to share what is idle");
    }
    left -= firm;
  }
  return {};
}

CardWish settings_wish(const World& world, int gpu) {
  CardWish wish;
  wish.card = gpu;
  const Bytes total = Bytes::of(world.cards[static_cast<std::size_t>(gpu)].total);
  if (const auto at = world.settings.growth.find(gpu); at != world.settings.growth.end()) {
    wish.growth = at->second;
  }
  if (const auto at = world.settings.limit.find(gpu); at != world.settings.limit.end()) {
    wish.limit = at->second.on(total).count();
  }
  if (const auto at = world.settings.split.find(gpu); at != world.settings.split.end()) {
    for (const LogicalDeviceConfiguration& part : at->second) {
      DevicePlan device;
      device.limit = part.memory_limit ? part.memory_limit->on(total).count()
                                       : wish.limit.value_or(total.count());
      if (part.reserve) device.reserve = part.reserve->on(total).count();
      device.priority = part.priority.value_or(0);
      wish.parts.push_back(device);
    }
  }
  return wish;
}

Result<CardPlan> strict_plan(const World& world, const CardWish& wish,
                             const Environment& environment, const MemoryOf& memory_of) {
  const Card& card = world.cards[static_cast<std::size_t>(wish.card)];
  const std::string name = short_name(wish.card);
  CardPlan plan;
  plan.card = wish.card;
  plan.options = pool_options(wish, environment);
  if (const Outcome fine = check_combination(wish, card, plan.options); !fine) return fine.error();
  note_overrides(wish, environment, &plan);

  const auto cap = environment.card_cap();
  if (environment.process_limit && *environment.process_limit > card.total) {
    return Fault{FaultKind::kInvalidArgument,
                 "PER_PROCESS_GPU_MEMORY: " + text(*environment.process_limit) + " is more than " +
                     name + " has (" + text(card.total) + "); use less"};
  }
  const bool hard = !wish.parts.empty() && !elastic(wish.parts);
  const std::optional<std::uint64_t> asked =
      wish.limit ? wish.limit
                 : (wish.parts.empty() ? std::nullopt : std::optional(promised(wish.parts)));
  if (cap && asked && *asked > *cap) return over_cap(name, *asked, *cap, environment);

  std::uint64_t total = 0;
  if (wish.limit) {
    total = *wish.limit;
  } else if (hard) {
    total = promised(wish.parts);
  } else {
    const Result<std::uint64_t> all = default_limit(wish, card, environment, memory_of);
    if (!all) return all.error();
    total = std::min(*all, cap.value_or(pool::kNoLimit));
  }
  if (wish.parts.empty()) {
    const auto parts = static_cast<std::uint64_t>(std::max(1, wish.equal_parts));
    plan.devices.assign(parts, DevicePlan{total / parts, {}, 0});
    return plan;
  }
  plan.devices = wish.parts;
  if (hard) return plan;
  plan.shared = total;
  for (DevicePlan& device : plan.devices) device.limit = std::min(device.limit, total);
  if (const auto wrong = wrong_split(name, plan.devices, total, false)) {
    return Fault{FaultKind::kInvalidArgument, *wrong};
  }
  return plan;
}

}  // namespace vram::config
