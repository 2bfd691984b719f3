#pragma once

// How a request waits for calls under way to settle: how long, when it looks again, when it asks to
// go first, and who looks for the dead meanwhile.
//
// Who waits says so in the device's `waiting`; who gives something back then clears it, counts in
// `settled` and wakes a few who sleep on that. Whose turn it is not sleeps on the turn. Neither is
// relied on: whoever misses a call, because somebody died before he made it, looks again by
// himself.
//
// Threads: an object belongs to one.

#include <cstdint>

#include "ledger/turn.h"
#include "ledger/world.h"
#include "wire/job_layout.h"

namespace vram::ledger {

// How long a request waits for a call under way before it is refused. A driver's free may wait for
// running kernels; TensorFlow's own allocator waits ten seconds in the same place. The time in
// which others go first does not count: they are no reason to refuse.
inline constexpr std::uint64_t kSettle_ms = 5000;

class Wait {
 public:
  Wait(wire::Job& job, std::uint32_t device, const World& world);
  ~Wait();
  Wait(const Wait&) = delete;
  Wait& operator=(const Wait&) = delete;

  bool is_over() const { return waited_ms_ >= kSettle_ms; }

  // False: another request goes first.
  bool may_try() { return !turn_.is_anothers(now_); }

  // While calls under way are in the way, one of all that wait looks for the dead.
  void reap_now_and_then();

  void nap();

  // To be called when something was given back. Costs a comparison when nobody waits.
  static void note_settled(wire::DeviceAccount& device) {
    if (device.waiting.load(std::memory_order_relaxed) != 0) call_waiting(device);
  }

 private:
  static void call_waiting(wire::DeviceAccount& device);

  wire::Job& job_;
  wire::DeviceAccount& device_;
  const World& world_;
  Turn turn_;
  std::uint32_t seen_;  // `settled` before the last try
  std::uint64_t start_;
  std::uint64_t now_;
  std::uint64_t waited_ms_ = 0;  // while nobody else had the turn
};

}  // namespace vram::ledger
