#include "host/host.h"

#include <cstdlib>

#include "host/limit_text.h"
#include "wire/job_layout.h"

namespace vram::host {
namespace {

// A context takes half of it, and a card that holds nothing is no use.
constexpr std::uint64_t kLeastSimulatedBytes = std::uint64_t{1} << 30;

HostFailure explain(const probe::NvmlFailure& failure, const std::optional<std::string>& sim) {
  if (sim) {
    return {HostProblem::kOther,
            {"--sim: the simulator did not start (" + failure.text +
             "); reinstall vram, or choose another --sim"}};
  }
  switch (failure.error) {
    case probe::NvmlError::kNotFound:
      return {HostProblem::kNoDriver,
              {"there is no NVIDIA driver (libnvidia-ml.so.1 was not found); install one, or "
               "simulate a card with --sim 1x24GiB"}};
    case probe::NvmlError::kNoDriver:
      return {HostProblem::kNoDriver,
              {"the NVIDIA driver is not loaded (" + failure.text +
               "); load it, or simulate a card with --sim 1x24GiB"}};
    case probe::NvmlError::kNotNvml:
      return {HostProblem::kOther,
              {"the NVIDIA driver is too old (its libnvidia-ml.so.1 lacks " + failure.text +
               "); vram needs one for CUDA 11.3 or later"}};
    case probe::NvmlError::kFailed:
      break;
  }
  return {
      HostProblem::kOther,
      {"the NVIDIA driver does not answer (" + failure.text + "); see whether nvidia-smi works"}};
}

}  // namespace

Result<std::string> read_simulation(const std::string& text, const std::string& source) {
  std::string machine;
  std::size_t cards = 0;
  std::size_t from = 0;
  for (;;) {
    const std::size_t to = text.find(',', from);
    const std::string group = text.substr(from, to - from);
    const std::size_t times = group.find('x');
    const std::string count = times == std::string::npos ? "1" : group.substr(0, times);
    const std::string size = times == std::string::npos ? group : group.substr(times + 1);
    const bool number = !count.empty() && count.size() <= 4 &&
                        size.find_first_of("0123456789") == 0 &&
                        count.find_first_not_of("0123456789") == std::string::npos;
    if (!number) {
      return Failure{source + ": '" + text + "' is no machine; write COUNTxSIZE, like 2x24GiB"};
    }
    const Result<base::Size> parsed = parse_size(size, source);
    if (!parsed) return parsed.error();
    if (parsed->kind != base::Size::Kind::kBytes || parsed->amount < kLeastSimulatedBytes) {
      return Failure{source + ": a simulated card of " + format_size(*parsed) +
                     " is too small; use 1GiB or more"};
    }
    cards += std::stoul(count);
    if (std::stoul(count) == 0 || cards > wire::kMaxDevices) {
      return Failure{source + ": '" + text + "' has " + std::to_string(cards) +
                     " cards; a machine has 1 to " + std::to_string(wire::kMaxDevices)};
    }
    machine +=
        (machine.empty() ? "" : ",") + count + "x" + std::to_string(parsed->amount >> 20) + "MiB";
    if (to == std::string::npos) return machine;
    from = to + 1;
  }
}

base::Expected<Host, HostFailure> read_host(const std::optional<std::string>& sim,
                                            const InstallLayout& layout) {
  std::string library = "libnvidia-ml.so.1";
  if (sim) {
    const Result<std::string> machine = read_simulation(*sim, "--sim");
    if (!machine) return HostFailure{HostProblem::kOther, machine.error()};
    setenv("VRAM_SIM", machine->c_str(), 1);
    library = layout.simulated_management;
    if (!exists(library)) {
      return HostFailure{HostProblem::kOther,
                         {"--sim: the simulator is missing (" + library + "); reinstall vram"}};
    }
  }
  auto nvml = probe::Nvml::open(library);
  if (!nvml) return explain(nvml.error(), sim);
  auto cards = (*nvml)->cards();
  if (!cards) return explain(cards.error(), sim);
  Host host;
  host.cards = std::move(*cards);
  host.driver_release = (*nvml)->driver_release();
  if (const auto version = (*nvml)->cuda_version()) host.cuda_version = *version;
  host.nvml = std::move(*nvml);
  return host;
}

}  // namespace vram::host
