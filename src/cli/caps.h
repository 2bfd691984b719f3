#pragma once

// From what was asked for to bytes on each card, and every reason to refuse it before anything
// starts.

#include <cstdint>
#include <functional>
#include <vector>

#include "cli/failure.h"
#include "cli/settings.h"
#include "probe/nvml.h"

namespace vram::cli {

// What a CUDA context takes on a card before the program's first allocation.
struct ContextCost {
  std::uint64_t bytes = 0;
  bool measured = false;  // else a lower bound that holds for every card
};
using ContextCostOf = std::function<ContextCost(const probe::Card&)>;

// A cap for each of `visible`, in its order; wire::kUnlimited where there is none. `all` are the
// host's cards, by whose numbers limits name cards.
Result<std::vector<std::uint64_t>> resolve_caps(const Setting<Limit>& limit,
                                                const Setting<Limit>& ceiling,
                                                const std::vector<probe::Card>& visible,
                                                const std::vector<probe::Card>& all,
                                                const ContextCostOf& context_cost);

// What is reserved on each of `visible`, bytes; 0 where nothing is. Never above the cap.
Result<std::vector<std::uint64_t>> resolve_reserves(const Setting<Limit>& reserve,
                                                    const std::vector<probe::Card>& visible,
                                                    const std::vector<probe::Card>& all,
                                                    const std::vector<std::uint64_t>& caps);

}  // namespace vram::cli
