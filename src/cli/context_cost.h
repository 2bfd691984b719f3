#pragma once

// What a CUDA context takes on a card: measured by governed programs and kept per card model and
// driver in $XDG_CACHE_HOME/vram/context-bytes, one line each: `BYTES<tab>DRIVER<tab>MODEL`. A
// cache: whatever is wrong with the file, the answer is the lower bound.

#include <cstdint>
#include <string>

#include "cli/caps.h"
#include "cli/settings.h"

namespace vram::cli {

class ContextCosts {
 public:
  // `file` may be empty: then nothing is kept.
  ContextCosts(std::string file, std::string driver_release)
      : file_(std::move(file)), driver_(std::move(driver_release)) {}

  ContextCost of(const probe::Card& card) const;
  void remember(const std::string& card_name, std::uint64_t bytes) const;

 private:
  std::string file_;
  std::string driver_;
};

std::string context_cost_file(const Environment& environment);

}  // namespace vram::cli
