#pragma once

// Which cards a program will see, and in which order.

#include <optional>
#include <string>
#include <vector>

#include "cli/failure.h"
#include "probe/nvml.h"

namespace vram::cli {

struct VisibilityRequest {
  std::optional<std::string> gpu;           // --gpu: numbers of `vram devices`, UUIDs, prefixes
  std::optional<std::string> cuda_visible;  // CUDA_VISIBLE_DEVICES as inherited
  std::optional<std::string> cuda_order;    // CUDA_DEVICE_ORDER as inherited
};

struct Visibility {
  std::vector<probe::Card> cards;  // in the program's order where that is known
  // False: numbers in CUDA_VISIBLE_DEVICES count cards of different models from the fastest on,
  // which only the driver can rank; `cards` then holds every card.
  bool certain = true;
  // What CUDA_VISIBLE_DEVICES must become; absent: it stays as it is.
  std::optional<std::string> variable;
};

// Refuses what --gpu cannot mean. What CUDA_VISIBLE_DEVICES says wrongly is read as the driver
// reads it: devices before the first wrong entry are visible, a repeated one hides all.
Result<Visibility> resolve_visibility(const VisibilityRequest& request,
                                      const std::vector<probe::Card>& cards);

// The card of this number, UUID or beginning of a UUID; `source` is named in messages.
Result<std::size_t> find_card(const std::string& text, const std::vector<probe::Card>& cards,
                              const std::string& source);

}  // namespace vram::cli
