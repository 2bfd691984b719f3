#pragma once

// Where the libraries lie that belong to this executable: build/bin beside build/lib, or bin beside
// lib or lib/TRIPLET of an installation.

#include <string>

namespace vram::host {

struct InstallLayout {
  std::string driver;      // stands in for libcuda.so.1 in governed programs
  std::string management;  // the same for libnvidia-ml.so.1
  std::string simulated_driver;
  std::string simulated_management;
  std::string simulated_runtime;  // folder of a libcudart that works with the simulated driver
};

// Absolute paths; the files need not exist.
InstallLayout find_install_layout(const std::string& executable_folder);

// The folder of the running executable, links resolved.
std::string executable_folder();

bool exists(const std::string& path);

}  // namespace vram::host
