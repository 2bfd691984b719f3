// The vendor's compiler, where there is one.
#pragma once

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <string>

namespace vram::sim_test {

// Empty when it is neither on the PATH nor where toolkits are installed.
inline std::string find_nvcc() {
  std::string path = std::getenv("PATH") != nullptr ? std::getenv("PATH") : "";
  path += ":/usr/local/cuda/bin";
  for (size_t at = 0; at < path.size();) {
    const size_t end = std::min(path.find(':', at), path.size());
    const std::filesystem::path candidate = path.substr(at, end - at) + "/nvcc";
    if (std::filesystem::exists(candidate)) return candidate;
    at = end + 1;
  }
  return {};
}

}  // namespace vram::sim_test
