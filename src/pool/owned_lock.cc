#include "pool/owned_lock.h"

#include <linux/membarrier.h>
#include <sys/syscall.h>
#include <unistd.h>

namespace vram::pool {
namespace {

bool ask_for(int command) { return syscall(SYS_membarrier, command, 0, 0) == 0; }

}  // namespace

constinit std::atomic<bool> OwnedLock::kernel_makes_barriers_{false};

void prepare_owned_locks() {
  OwnedLock::kernel_makes_barriers_.store(ask_for(MEMBARRIER_CMD_REGISTER_PRIVATE_EXPEDITED),
                                          std::memory_order_seq_cst);
}

void OwnedLock::lock() {
  others_.lock();
  if (kernel_makes_barriers_.load(std::memory_order_relaxed)) {
    // Once registered for, it fails only while the kernel has no memory for it.
    while (!ask_for(MEMBARRIER_CMD_PRIVATE_EXPEDITED)) sched_yield();
  }
  for (int looks = 0; inside_.load(std::memory_order_seq_cst) != 0; ++looks) {
    __builtin_ia32_pause();
    // The owner may be waiting for this processor.
    if (looks % 64 == 63) sched_yield();
  }
}

}  // namespace vram::pool
