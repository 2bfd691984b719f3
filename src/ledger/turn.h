#pragma once

// Who goes first when many wait for the same memory.
//
// Requests that fit are granted as they come. Where hundreds of threads take and give back, a large
// request may be passed by small ones for ever, although it would fit if they waited. So a request
// that has waited a while takes the turn: until it is served, requests that come later wait. Calls
// under way settle meanwhile, nobody takes their place, and the one whose turn it is either fits or
// is refused for certain.
//
// The turn is a lease, not a lock: it ends by itself, so a holder may die. And because a call under
// way may take seconds (a driver's free waits for running kernels), a turn is short, and after one
// that ran out nobody has it for as long: most of the time, small requests go on.
//
// The word: until when (milliseconds, 48 bits) | holder (16 bits; 0: nobody, the pause after a turn
// that ran out). 0: free. Threads: any, in any number of processes.

#include <atomic>
#include <cstdint>

namespace vram::ledger {

inline constexpr std::uint64_t kTurn_ms = 100;

class Turn {
 public:
  // `holder` is never 0; two who wait have the same by accident at most, and then share a turn.
  Turn(std::atomic<std::uint64_t>& word, std::uint16_t holder) : word_(word), holder_(holder) {}

  // True: somebody else goes first. Clears a turn that is over.
  bool is_anothers(std::uint64_t now_ms);

  // True: it is ours now, or was already.
  bool take(std::uint64_t now_ms);

  // Ends ours when it has run its full time, and lets the pause begin.
  void end_if_over(std::uint64_t now_ms);

  // True: it was ours; the next may come at once.
  bool give_back();

  // What others sleep on, and its value.
  const std::uint32_t* futex() const { return reinterpret_cast<const std::uint32_t*>(&word_); }
  std::uint32_t word() const {
    return static_cast<std::uint32_t>(word_.load(std::memory_order_acquire));
  }

 private:
  std::atomic<std::uint64_t>& word_;
  std::uint64_t mine_ = 0;  // the word while the turn is ours
  std::uint16_t holder_;
};

}  // namespace vram::ledger
