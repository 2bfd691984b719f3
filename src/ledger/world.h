#pragma once

// What the ledger's slow paths need of the outside; tests bring their own.

#include <cstdint>

namespace vram::ledger {

struct World {
  bool (*alive)(std::uint64_t identity, std::uint64_t pid_namespace);
  void (*nap)();              // give way for a moment while others settle
  std::uint64_t (*now_ms)();  // monotonic
};

const World& real_world();

}  // namespace vram::ledger
