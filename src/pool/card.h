#pragma once

// A card's primary context, held for as long as this lives, and what every pool asks it.

#include "pool/memory_pool.h"

namespace vram::pool {

class Card {
 public:
  [[nodiscard]] static base::Expected<std::unique_ptr<Card>, Failure> open(
      const DriverCalls& driver, int ordinal);
  ~Card();
  Card(const Card&) = delete;
  Card& operator=(const Card&) = delete;

  [[nodiscard]] const DriverCalls& driver() const { return driver_; }
  [[nodiscard]] CUdevice device() const { return device_; }
  [[nodiscard]] CUcontext context() const { return context_; }
  [[nodiscard]] std::uint64_t total() const;  // bytes; 0: the driver does not say
  [[nodiscard]] std::uint64_t free() const;

 private:
  Card(const DriverCalls& driver, CUdevice device, CUcontext context)
      : driver_(driver), device_(device), context_(context) {}

  DriverCalls driver_;
  CUdevice device_;
  CUcontext context_;
};

// "1.5 GiB", for messages.
[[nodiscard]] std::string in_words(std::uint64_t bytes);

}  // namespace vram::pool
