#include "config/compat_plan.h"

#include <algorithm>
#include <limits>
#include <set>

#include "config/limit_rules.h"
#include "config/v1_options.h"

namespace vram::config {
namespace {

using compat::v1::ConfigProto;
using compat::v1::GPUOptions;
using VirtualDevices = GPUOptions::Experimental::VirtualDevices;

constexpr std::uint64_t kMiB = std::uint64_t{1} << 20;
// How long TensorFlow's allocator waits for somebody to free memory before it fails.
constexpr std::uint32_t kWaitMs = 10'000;

Result<VirtualDevices> parts_of(const World& world, int gpu) {
  VirtualDevices parts;
  const auto found = world.settings.split.find(gpu);
  if (found == world.settings.split.end()) return parts;
  for (const LogicalDeviceConfiguration& part : found->second) {
    const Bytes limit = part.memory_limit->on(Bytes::of(world.cards[gpu].total));
    const std::uint64_t whole_mib = limit.count() / kMiB;
    parts.memory_limit_mb.push_back(static_cast<float>(whole_mib));
    if (part.priority) parts.priority.push_back(*part.priority);
  }
  if (!parts.priority.empty() && parts.priority.size() != parts.memory_limit_mb.size()) {
    return Fault{FaultKind::kValue, "priority must be specified for all virtual devices of " +
                                        short_name(gpu) + ", or for none"};
  }
  return parts;
}

Outcome verify_virtual_devices(const World& world, const GPUOptions& options, std::size_t usable,
                               std::size_t order) {
  const auto& virtual_devices = options.experimental.virtual_devices;
  const std::string entries = std::to_string(virtual_devices.size());
  if (options.per_process_gpu_memory_fraction > 0) {
    return Fault{FaultKind::kInvalidArgument,
                 "It's invalid to set per_process_gpu_memory_fraction when virtual_devices is set"};
  }
  if (usable < virtual_devices.size()) {
    return Fault{FaultKind::kUnknown,
                 "Not enough GPUs to create virtual devices. "
                 "num_gpus_to_use: " +
                     std::to_string(usable) + " #virtual_devices: " + entries};
  }
  if (!options.visible_device_list.empty() && order != virtual_devices.size()) {
    return Fault{FaultKind::kInvalidArgument,
                 "The number of GPUs in visible_device_list (" + std::to_string(order) +
                     ") doesn't match the number of elements in the virtual_devices list (" +
                     entries + ")"};
  }
  if (order != virtual_devices.size()) {
    return Fault{FaultKind::kUnknown, "The number of valid GPUs (" + std::to_string(order) +
                                          ") doesn't match the number of elements in the "
                                          "virtual_devices list (" +
                                          entries + ")"};
  }
  for (std::size_t i = 0; i < virtual_devices.size(); ++i) {
    const Outcome fine = check_priorities(virtual_devices[i], static_cast<int>(i),
                                          world.lowest_priority, world.highest_priority);
    if (!fine) return fine;
  }
  return Done{};
}

bool managed(const GPUOptions& options, const Environment& environment) {
  return options.per_process_gpu_memory_fraction > 1 || options.experimental.use_unified_memory ||
         environment.unified;
}

pool::Options pool_options(const GPUOptions& options, const Environment& environment) {
  pool::Options pool;
  pool.kind = environment.driver_async ? pool::Kind::kDriverAsync : pool::Kind::kBfc;
  pool.limit_is_threshold = environment.driver_async;
  pool.growth = environment.force_growth.value_or(options.allow_growth.value_or(false));
  pool.garbage_collection = environment.garbage_collection;
  pool.managed = managed(options, environment);
  pool.wait_ms = kWaitMs;
  return pool;
}

Result<std::vector<std::int64_t>> single_limits(const Card& card, const GPUOptions& options,
                                                const Environment& environment,
                                                const MemoryOf& memory_of,
                                                std::vector<std::string>* notes) {
  const Result<CardMemory> memory = memory_of(card.ordinal);
  if (!memory) return memory.error();
  const double fraction = options.per_process_gpu_memory_fraction;
  LimitAnswer answer = single_device_limit(
      card, *memory,
      {fraction, options.experimental.gpu_system_memory_size_in_mb, environment.system_mib});
  if (environment.unified) {
    answer.bytes =
        static_cast<std::int64_t>(static_cast<double>(memory->total) * std::max(1.0, fraction));
  }
  notes->insert(notes->end(), answer.ignored.begin(), answer.ignored.end());
  const int parts = std::max(1, options.experimental.num_virtual_devices_per_gpu);
  return std::vector<std::int64_t>(static_cast<std::size_t>(parts), answer.bytes / parts);
}

Result<CardPlan> plan_card(const World& world, int gpu, const VirtualDevices& parts,
                           const GPUOptions& options, const Environment& environment,
                           const MemoryOf& memory_of) {
  CardPlan plan;
  plan.card = gpu;
  plan.options = pool_options(options, environment);
  if (plan.options.managed) {
    if (const Outcome fine = check_managed(world.cards[gpu]); !fine) return fine.error();
  }
  std::vector<std::int64_t> limits;
  if (parts.memory_limit_mb.empty()) {
    auto single = single_limits(world.cards[gpu], options, environment, memory_of, &plan.notes);
    if (!single) return single.error();
    limits = std::move(*single);
  } else {
    for (const float mib : parts.memory_limit_mb) limits.push_back(virtual_device_limit(mib));
  }
  const auto cap = environment.card_cap();
  for (std::size_t i = 0; i < limits.size(); ++i) {
    DevicePlan device;
    // As in TensorFlow, a negative number becomes a huge one.
    device.limit = std::min(static_cast<std::uint64_t>(limits[i]), cap.value_or(pool::kNoLimit));
    if (i < parts.priority.size()) device.priority = parts.priority[i];
    plan.devices.push_back(device);
  }
  if (cap && plan.devices.size() > 1) plan.shared = cap;
  return plan;
}

}  // namespace

Result<ConfigProto> compat_config(const World& world, std::vector<std::string>* notes) {
  ConfigProto config = world.settings.imported.value_or(ConfigProto{});
  GPUOptions& options = config.gpu_options;
  std::vector<VirtualDevices> virtual_devices;
  std::set<int> growths;  // -1: never set, which is neither false nor true
  std::string list;
  for (const int gpu : world.visible) {
    const auto growth = world.settings.growth.find(gpu);
    growths.insert(growth == world.settings.growth.end() ? -1 : (growth->second ? 1 : 0));
    list += (list.empty() ? "" : ",") + std::to_string(gpu);
    if (world.settings.split.empty()) continue;
    Result<VirtualDevices> parts = parts_of(world, gpu);
    if (!parts) return parts.error();
    virtual_devices.push_back(std::move(*parts));
  }
  options.visible_device_list = list;
  config.device_count["GPU"] = static_cast<int>(world.visible.size());
  if (const auto cpu = world.settings.split.find(kCpu); cpu != world.settings.split.end()) {
    config.device_count["CPU"] = static_cast<int>(std::max<std::size_t>(1, cpu->second.size()));
  }
  if (!virtual_devices.empty()) {
    options.experimental.virtual_devices = std::move(virtual_devices);
    if (!world.settings.growth.empty()) {
      notes->push_back(
          "memory growth was dropped for all GPUs, because a device (the CPU counts too) has a "
          "logical configuration; TF_FORCE_GPU_ALLOW_GROWTH=true gives both");
    }
  } else if (growths.size() > 1) {
    return Fault{FaultKind::kValue,
                 "Memory growth cannot differ between GPU devices; set it on each visible GPU, or "
                 "hide the others"};
  } else if (!growths.empty() && *growths.begin() >= 0) {
    options.allow_growth = *growths.begin() == 1;
  }
  return config;
}

Result<std::vector<CardPlan>> compat_plan(const World& world, const ConfigProto& config,
                                          const Environment& environment,
                                          const MemoryOf& memory_of) {
  std::vector<CardPlan> plans;
  const GPUOptions& options = config.gpu_options;
  const int wanted = device_count(config, "GPU", std::numeric_limits<int>::max());
  if (wanted == 0 || world.cards.empty()) return plans;
  const auto order =
      parse_visible_device_list(options.visible_device_list, static_cast<int>(world.cards.size()));
  if (!order) return order.error();
  std::size_t usable = std::min(order->size(), static_cast<std::size_t>(std::max(0, wanted)));
  const auto& virtual_devices = options.experimental.virtual_devices;
  if (!virtual_devices.empty()) {
    const Outcome fine = verify_virtual_devices(world, options, usable, order->size());
    if (!fine) return fine.error();
    usable = virtual_devices.size();
  }
  for (std::size_t i = 0; i < usable; ++i) {
    Result<CardPlan> plan = plan_card(
        world, (*order)[i], virtual_devices.empty() ? VirtualDevices{} : virtual_devices[i],
        options, environment, memory_of);
    if (!plan) return plan.error();
    plans.push_back(std::move(*plan));
  }
  // TensorFlow asks for the allocator once a device is otherwise ready.
  const Outcome allocator = check_allocator_type(options.allocator_type);
  if (!allocator && !plans.empty()) return allocator.error();
  return plans;
}

}  // namespace vram::config
