#pragma once

// The card that a replay runs on, with a stream for each of the workload's: a card of bookkeeping,
// or the first one that this process's driver has.
//
// One at a time. Its context is current in the thread that made it. Streams outlive the pools.

#include <memory>
#include <string>
#include <vector>

#include "base/expected.h"
#include "pool/memory_pool.h"

namespace vram::replay {

class Device {
 public:
  static std::unique_ptr<Device> dry(std::uint64_t bytes);
  // Whatever libcuda.so.1 the dynamic linker finds. A failure is one line without the program's
  // name.
  static base::Expected<std::unique_ptr<Device>, std::string> real();
  virtual ~Device() = default;
  Device(const Device&) = delete;
  Device& operator=(const Device&) = delete;

  [[nodiscard]] virtual const pool::DriverCalls& driver() const = 0;
  [[nodiscard]] virtual std::uint64_t bytes() const = 0;
  // The first is the legacy default stream, every other one a stream of its own. Valid until the
  // next call. Empty: the driver makes no more.
  [[nodiscard]] virtual const std::vector<CUstream>& streams(std::uint32_t count) = 0;

 protected:
  Device() = default;
};

}  // namespace vram::replay
