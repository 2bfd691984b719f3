#pragma once

// The cards that the driver shows to this process, and what is free on them.

#include <cstdint>
#include <string>
#include <vector>

#include "config/fault.h"
#include "pool/driver_calls.h"

namespace vram::config {

struct Card {
  int ordinal = 0;
  std::string name;
  int major = 0;  // compute capability
  int minor = 0;
  std::uint64_t total = 0;  // bytes
  std::string uuid;
  std::string pci_bus_id;
};

// In CUDA's order; none when the driver has no device.
Result<std::vector<Card>> list_cards(const pool::DriverCalls& driver);

struct CardMemory {
  std::uint64_t free = 0;
  std::uint64_t total = 0;
};

// A card's primary context, held so that it is not made anew for each reading.
class PrimaryContext {
 public:
  static Result<PrimaryContext> retain(const pool::DriverCalls& driver, const Card& card);
  PrimaryContext(PrimaryContext&& other) noexcept;
  PrimaryContext& operator=(PrimaryContext&&) = delete;
  ~PrimaryContext();

  // UnknownError when the driver does not answer.
  [[nodiscard]] Result<CardMemory> memory() const;

 private:
  PrimaryContext(const pool::DriverCalls& driver, CUdevice device, CUcontext context, int ordinal)
      : driver_(&driver), device_(device), context_(context), ordinal_(ordinal) {}

  const pool::DriverCalls* driver_;  // null: moved from
  CUdevice device_;
  CUcontext context_;
  int ordinal_;
};

}  // namespace vram::config
