#pragma once

// What the daemon says of the cards: whose turn it is, what is reserved.

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace vram::cli {

struct CardStatus {
  std::string uuid;
  std::uint64_t reserves = 0;   // bytes, of the jobs admitted
  std::uint64_t promised = 0;   // bytes, to processes that have not taken them yet
  std::string holder, waiting;  // ids of jobs; empty: nobody waits. "other": another user's
  std::uint32_t left_ms = 0;    // of the holder's turn
};

// Absent: no daemon answers.
std::optional<std::vector<CardStatus>> ask_daemon_status();

}  // namespace vram::cli
