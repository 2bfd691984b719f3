// TensorFlow's checks (python/eager/context.py), at the same time and with the same gaps.

#include "config/rules.h"

namespace vram::config {
namespace {

Fault value_fault(std::string message) { return {FaultKind::kValue, std::move(message)}; }

class CompatRules : public Rules {
 public:
  Outcome visible(const World& /*world*/,
                  const std::vector<PhysicalDevice>& /*wanted*/) const override {
    return Done{};
  }

  Outcome growth(const World& world, int place, bool /*enable*/) const override {
    if (world.settings.split.count(place) != 0) {
      return value_fault("Cannot set memory growth on device when virtual devices configured: " +
                         short_name(place) + "; set TF_FORCE_GPU_ALLOW_GROWTH=true to have both");
    }
    if (place == kCpu) return value_fault("Cannot set memory growth on non-GPU devices: CPU:0");
    return Done{};
  }

  Outcome limit(const World& /*world*/, int /*place*/, Size /*wanted*/) const override {
    return Fault{FaultKind::kRuntime,
                 "TensorFlow has no set_memory_limit; use set_logical_device_configuration, or the "
                 "strict mode"};
  }

  Outcome split(const World& /*world*/, int place, const Parts& parts) const override {
    for (const LogicalDeviceConfiguration& part : parts) {
      if (part.reserve) {
        return value_fault("TensorFlow has no reserve; leave it out, or use the strict mode");
      }
      if (place != kCpu && !part.memory_limit) {
        return value_fault("Setting memory limit is required for GPU virtual devices: " +
                           short_name(place));
      }
      if (place == kCpu && part.memory_limit) {
        return value_fault("Setting memory limit on CPU virtual devices is not supported");
      }
      if (place == kCpu && part.priority) {
        return value_fault("Setting a priority on CPU virtual devices is not supported");
      }
    }
    return Done{};
  }
};

}  // namespace

const Rules& compat_rules() {
  static const CompatRules rules;
  return rules;
}

const Rules& rules_of(Mode mode) { return mode == Mode::kCompat ? compat_rules() : strict_rules(); }

}  // namespace vram::config
