#pragma once

// What the pools of one card will be: the outcome of either mode's rules.

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "config/cards.h"
#include "config/fault.h"
#include "pool/memory_pool.h"

namespace vram::config {

struct DevicePlan {
  std::uint64_t limit = 0;
  std::optional<std::uint64_t> reserve;  // an elastic split
  int priority = 0;
};

struct CardPlan {
  int card = 0;
  pool::Options options;                // of each device, but for ordinal, limit and budget
  std::optional<std::uint64_t> shared;  // what all devices of the card together may hold
  std::vector<DevicePlan> devices;
  std::vector<std::string> notes;  // for diagnostics()
};

// Free and total memory of a card; makes its context.
using MemoryOf = std::function<Result<CardMemory>(int card)>;

}  // namespace vram::config
