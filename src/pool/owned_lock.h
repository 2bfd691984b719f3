#pragma once

// A lock that one thread takes millions of times and others hardly ever: the owner pays two plain
// stores and a load, and whoever else comes pays for both.
//
// Model. The owner says that it is inside, and looks whether somebody else is; the other says that
// it is there, and looks whether the owner is inside. Each must say before it looks. A processor
// may put that off for its own store, so one of the two needs a barrier: the other asks the kernel
// for one on all processors that run this process (membarrier(2), since Linux 4.14). Where the
// kernel refuses, the owner makes its own each time.
//
// Not for code that calls the driver, and not for signal handlers.

#include <sched.h>

#include <atomic>
#include <cstdint>

#include "base/kernel_barrier.h"
#include "pool/spin_lock.h"

namespace vram::pool {

// A process that will use such locks prepares the kernel's barrier before the first.
class OwnedLock {
 public:
  // The owner, when it is not inside.
  void enter() {
    while (true) {
      if (base::KernelBarrier::is_available()) {
        inside_.store(1, std::memory_order_relaxed);
        std::atomic_signal_fence(std::memory_order_seq_cst);
      } else {
        (void)inside_.exchange(1, std::memory_order_seq_cst);
      }
      if (!others_.is_taken()) return;
      leave();
      others_.wait();
    }
  }
  void leave() { inside_.store(0, std::memory_order_release); }

  // Anybody who is not inside, the owner too.
  void lock();
  void unlock() { others_.unlock(); }

 private:
  std::atomic<std::uint32_t> inside_{0};
  SpinLock others_;
};

// The owner inside, for a scope.
class Inside {
 public:
  explicit Inside(OwnedLock& lock) : lock_(lock) { lock_.enter(); }
  ~Inside() { lock_.leave(); }
  Inside(const Inside&) = delete;
  Inside& operator=(const Inside&) = delete;

 private:
  OwnedLock& lock_;
};

}  // namespace vram::pool
