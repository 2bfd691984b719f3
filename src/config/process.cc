#include "config/process.h"

#include <chrono>
#include <cstdlib>

#include "vram/error.h"

namespace vram::config {

Host process_host() {
  Host host;
  host.driver = [] { return pool::open_driver(); };
  host.make_pool = [](const pool::DriverCalls& driver, const pool::Options& options) {
    return pool::make_pool(driver, options);
  };
  host.variable = [](const char* name) -> std::optional<std::string> {
    const char* value = std::getenv(name);
    return value == nullptr ? std::nullopt : std::optional<std::string>(value);
  };
  host.now_ms = [] {
    const auto now = std::chrono::steady_clock::now().time_since_epoch();
    return static_cast<std::uint64_t>(
        std::chrono::duration_cast<std::chrono::milliseconds>(now).count());
  };
  return host;
}

Runtime& process_runtime() {
  static auto* runtime = new Runtime(process_host());
  return *runtime;
}

void raise(const Fault& fault) {
  switch (fault.kind) {
    case FaultKind::kValue:
      throw ValueError(fault.message);
    case FaultKind::kRuntime:
      throw RuntimeError(fault.message);
    case FaultKind::kInvalidArgument:
      throw InvalidArgument(fault.message);
    case FaultKind::kAlreadyExists:
      throw AlreadyExists(fault.message);
    case FaultKind::kInternal:
      throw InternalError(fault.message);
    case FaultKind::kUnknown:
      throw UnknownError(fault.message);
    case FaultKind::kResourceExhausted:
      throw ResourceExhausted(fault.message);
  }
  throw InternalError(fault.message);
}

}  // namespace vram::config
