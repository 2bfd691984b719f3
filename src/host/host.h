#pragma once

// The cards of this host, real or simulated, and the driver that serves them.

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "host/failure.h"
#include "host/install_layout.h"
#include "probe/nvml.h"

namespace vram::host {

struct Host {
  std::unique_ptr<probe::Nvml> nvml;
  std::vector<probe::Card> cards;
  std::string driver_release;
  int cuda_version = 0;  // as cuda.h writes it; 0: not known
};

enum class HostProblem : std::uint8_t { kNoDriver, kOther };
struct HostFailure {
  HostProblem problem;
  Failure failure;
};

// `sim`: a specification like 2x24GiB; it is put into this process's environment, where the
// simulator looks for it.
base::Expected<Host, HostFailure> read_host(const std::optional<std::string>& sim,
                                            const InstallLayout& layout);

// "2x24GiB", "24GiB", "1x24GiB,1x1.5TB" in the one form that the simulator surely reads: whole MiB.
Result<std::string> read_simulation(const std::string& text, const std::string& source);

}  // namespace vram::host
