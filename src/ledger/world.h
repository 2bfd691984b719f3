#pragma once

// What the ledger's slow paths need of the outside; tests bring their own.

#include <cstdint>

namespace vram::ledger {

struct World {
  bool (*alive)(std::uint64_t identity, std::uint64_t pid_namespace);
  std::uint64_t (*now_ms)();  // monotonic, the same for all processes
  // Sleeps while `word`, which processes share, is `seen`; until woken, and no longer than `us`.
  void (*sleep)(const std::uint32_t* word, std::uint32_t seen, std::uint32_t us);
};

const World& real_world();

// Wakes some of those who sleep on the word.
void wake(const std::uint32_t* word, int count);

}  // namespace vram::ledger
