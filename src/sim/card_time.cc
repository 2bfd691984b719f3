#include "sim/card_time.h"

#include <string_view>
#include <thread>

#include "sim/costs.h"

namespace vram::sim {
namespace {

// A thread that sleeps wakes up late by about this much: the rest of the time it spins.
constexpr auto kSleepError = std::chrono::microseconds(100);

// Never destroyed: executor threads may outlive main().
std::mutex* engine_of(std::string_view operation) {
  static auto* const to_card = new std::mutex;
  static auto* const to_host = new std::mutex;
  if (operation == "card.to_card") return to_card;
  return operation == "card.to_host" ? to_host : nullptr;
}

std::chrono::nanoseconds time_of(const Cost& cost, size_t bytes) {
  const auto by_bytes = static_cast<uint64_t>(static_cast<double>(bytes) *
                                              static_cast<double>(cost.per_byte_ps) / 1000.0);
  return std::chrono::nanoseconds(cost.fixed_ns + by_bytes);
}

}  // namespace

CardTime::CardTime(const char* operation, size_t bytes) {
  const std::chrono::nanoseconds time = time_of(cost_of(operation), bytes);
  takes_time_ = time.count() > 0;
  if (!takes_time_) return;
  if (std::mutex* engine = engine_of(operation)) engine_ = std::unique_lock(*engine);
  end_ = std::chrono::steady_clock::now() + time;
}

CardTime::~CardTime() {
  if (!takes_time_) return;
  std::this_thread::sleep_until(end_ - kSleepError);
  while (std::chrono::steady_clock::now() < end_) {
  }
}

}  // namespace vram::sim
