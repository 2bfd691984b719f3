#pragma once

// From what was said of one card to its pools, with every sum and range checked. A wish is what one
// party (the v2 settings, or a session) wants of a card, in bytes of that card.

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "config/environment.h"
#include "config/plan.h"
#include "config/settings.h"

namespace vram::config {

struct CardWish {
  int card = 0;
  std::optional<bool> growth;
  std::optional<std::uint64_t> limit;  // of all its devices together
  std::vector<DevicePlan> parts;       // none: one device
  int equal_parts = 1;
  std::int64_t system_mib = 0;
  bool managed = false;

  // Nothing was said: whatever the card has is fine.
  [[nodiscard]] bool silent() const;
  // Asks for the same pools.
  [[nodiscard]] bool same(const CardWish& other) const;
};

// What the v2 settings say of a GPU.
CardWish settings_wish(const World& world, int gpu);

// What a session's config says of its GPUs, in its order. InvalidArgument, InternalError (another
// allocator, managed memory on a card without) or UnknownError (entries that do not match the
// GPUs).
Result<std::vector<CardWish>> session_wishes(const World& world,
                                             const compat::v1::ConfigProto& config);

// A hard or an elastic split of `total` bytes that cannot be: the message, `who` in front.
std::optional<std::string> wrong_split(const std::string& who, const std::vector<DevicePlan>& parts,
                                       std::uint64_t total, bool greedy);

Result<CardPlan> strict_plan(const World& world, const CardWish& wish,
                             const Environment& environment, const MemoryOf& memory_of);

}  // namespace vram::config
