#pragma once

// Names of logical devices as people write them: "GPU:0", "gpu:0", "/device:GPU:0", "/GPU:0",
// "GPU".

#include <optional>
#include <string>
#include <string_view>

namespace vram::config {

struct DeviceName {
  std::string type;          // "GPU" or "CPU"
  std::optional<int> index;  // none: the only one
};

// None: no name of a device.
std::optional<DeviceName> parse_device_name(std::string_view name);

}  // namespace vram::config
