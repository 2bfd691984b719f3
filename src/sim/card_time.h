// The time that work takes on the card, where costs are injected (sim/costs.h): the names
// "card.kernel", "card.copy", "card.to_card", "card.to_host" and "card.fill".
#pragma once

#include <chrono>
#include <cstddef>
#include <mutex>

namespace vram::sim {

// From its beginning to its end the executor thread takes at least the operation's time; what the
// simulator needs for the work itself counts. Copies to and from the host have an engine for each
// direction, which serves one of them at a time. Nothing happens where the operation costs nothing.
class CardTime {
 public:
  explicit CardTime(const char* operation, size_t bytes = 0);
  ~CardTime();
  CardTime(const CardTime&) = delete;
  CardTime& operator=(const CardTime&) = delete;

 private:
  std::chrono::steady_clock::time_point end_;
  std::unique_lock<std::mutex> engine_;
  bool takes_time_;
};

}  // namespace vram::sim
