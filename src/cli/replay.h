#pragma once

// What `vram replay` found, for people and for programs.

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "replay/pools.h"
#include "replay/recorded.h"

namespace vram::cli {

// One trace through one pool.
struct Replayed {
  std::string trace, pool;
  std::shared_ptr<const replay::Recorded> recorded;  // without its steps
  std::uint64_t events = 0;                          // of them
  std::uint64_t card = 0;                            // bytes
  std::uint64_t limit = 0;                           // bytes; pool::kNoLimit: none
  std::optional<std::string> unavailable;            // why there is no such pool here
  replay::PoolOutcome outcome;
  std::optional<std::uint64_t> smallest_limit;  // searched for, and found

  [[nodiscard]] bool completed() const { return !unavailable && !outcome.stop; }
};

enum class Searched : std::uint8_t { kNo, kYes };

// A table, a mean a pool when there are several traces, and what is to be said about each.
std::string replays_as_text(const std::vector<Replayed>& replays, Searched searched,
                            const std::string& card);
// `card`: "dry", "simulated" or "real".
std::string replays_as_json(const std::vector<Replayed>& replays, const std::string& card);

}  // namespace vram::cli
