#pragma once

// A memory barrier on all processors that run this process, made by the kernel for whoever asks
// (membarrier(2), since Linux 4.14). With it, of two threads that each say something and then look
// what the other said, the frequent one needs no barrier of its own; only the compiler must keep
// its order.
//
// Threads: any.

#include <atomic>

namespace vram::base {

class KernelBarrier {
 public:
  // In a process that will use it, before the first use; again in a forked child.
  static void prepare();
  // False: not prepared, or the kernel refuses. Then each side needs a barrier of its own.
  static bool is_available() { return available_.load(std::memory_order_relaxed); }
  // By the rare side, when it is available.
  static void make();

 private:
  static std::atomic<bool> available_;
};

}  // namespace vram::base
