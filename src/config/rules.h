#pragma once

// What a call may say. The runtime has checked before that the device exists, and checks afterwards
// whether it is too late; the two modes differ in what lies between.

#include <string_view>
#include <vector>

#include "config/environment.h"
#include "config/fault.h"
#include "config/settings.h"

namespace vram::config {

class Rules {
 public:
  virtual ~Rules() = default;
  [[nodiscard]] virtual Outcome visible(const World& world,
                                        const std::vector<PhysicalDevice>& wanted) const = 0;
  [[nodiscard]] virtual Outcome growth(const World& world, int place, bool enable) const = 0;
  [[nodiscard]] virtual Outcome limit(const World& world, int place, Size wanted) const = 0;
  [[nodiscard]] virtual Outcome split(const World& world, int place, const Parts& parts) const = 0;
};

const Rules& rules_of(Mode mode);
const Rules& compat_rules();
const Rules& strict_rules();

}  // namespace vram::config
