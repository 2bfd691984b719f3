#pragma once

// What was said so far, before it is made into pools, and the devices it was said of.

#include <map>
#include <optional>
#include <string>
#include <vector>

#include "config/cards.h"
#include "vram/compat/v1.h"
#include "vram/config.h"

namespace vram::config {

// A physical device by its place: the CPU is -1, a GPU its number.
inline constexpr int kCpu = -1;

using Parts = std::vector<LogicalDeviceConfiguration>;

struct Settings {
  std::optional<std::vector<PhysicalDevice>> visible;  // none: the default
  std::map<int, bool> growth;
  std::map<int, Size> limit;
  std::map<int, Parts> split;  // kCpu too: one map, as in TensorFlow
  std::optional<compat::v1::ConfigProto> imported;
  bool soft_placement = true;

  [[nodiscard]] bool empty() const {
    return !visible && growth.empty() && limit.empty() && split.empty() && !imported;
  }
};

// What a rule may look at.
struct World {
  const std::vector<Card>& cards;
  const Settings& settings;
  std::vector<int> visible;  // GPUs, in their order
  int lowest_priority;
  int highest_priority;
};

// "GPU:0"
inline std::string short_name(int place) {
  return place == kCpu ? "CPU:0" : "GPU:" + std::to_string(place);
}
inline PhysicalDevice physical_device(int place) {
  return {"/physical_device:" + short_name(place), place == kCpu ? "CPU" : "GPU"};
}

}  // namespace vram::config
