#pragma once

// A lock for a few dozen instructions. Whoever finds it taken looks again for a while, and then
// lets others run: the holder may be waiting for this processor.
//
// Not for code that calls the driver, and not for signal handlers.

#include <sched.h>

#include <atomic>
#include <cstdint>

namespace vram::pool {

class SpinLock {
 public:
  void lock() {
    while (!try_lock()) wait();
  }
  // False: it is taken.
  [[nodiscard]] bool try_lock() { return taken_.exchange(1, std::memory_order_seq_cst) == 0; }
  [[nodiscard]] bool is_taken() const { return taken_.load(std::memory_order_seq_cst) != 0; }
  // Until it has been seen free.
  void wait() const {
    int pauses = 1;
    // Longer from time to time: everybody who looks at once takes the line from the holder.
    for (int looks = 1; is_taken(); ++looks) {
      for (int i = 0; i < pauses; ++i) __builtin_ia32_pause();
      if (pauses < kMostPauses) pauses *= 2;
      if (looks % kLooksBeforeYield == 0) sched_yield();
    }
  }
  void unlock() { taken_.store(0, std::memory_order_release); }

 private:
  // A pause is some 40 ns; together some 20 us, longer than any holder needs that is running.
  static constexpr int kMostPauses = 32;
  static constexpr int kLooksBeforeYield = 20;
  std::atomic<std::uint32_t> taken_{0};
};

template <typename Lock>
class Locked {
 public:
  explicit Locked(Lock& lock) : lock_(lock) { lock_.lock(); }
  ~Locked() { lock_.unlock(); }
  Locked(const Locked&) = delete;
  Locked& operator=(const Locked&) = delete;

 private:
  Lock& lock_;
};

}  // namespace vram::pool
