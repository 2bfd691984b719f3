#include "pool/owned_lock.h"

namespace vram::pool {

void OwnedLock::lock() {
  others_.lock();
  if (base::KernelBarrier::is_available()) base::KernelBarrier::make();
  for (int looks = 0; inside_.load(std::memory_order_seq_cst) != 0; ++looks) {
    __builtin_ia32_pause();
    // The owner may be waiting for this processor.
    if (looks % 64 == 63) sched_yield();
  }
}

}  // namespace vram::pool
