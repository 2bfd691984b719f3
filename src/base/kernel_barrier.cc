#include "base/kernel_barrier.h"

#include <linux/membarrier.h>
#include <sched.h>
#include <sys/syscall.h>
#include <unistd.h>

namespace vram::base {
namespace {

bool ask_for(int command) { return syscall(SYS_membarrier, command, 0, 0) == 0; }

}  // namespace

constinit std::atomic<bool> KernelBarrier::available_{false};

void KernelBarrier::prepare() {
  available_.store(ask_for(MEMBARRIER_CMD_REGISTER_PRIVATE_EXPEDITED), std::memory_order_seq_cst);
}

// Once registered for, it fails only while the kernel has no memory for it.
void KernelBarrier::make() {
  while (!ask_for(MEMBARRIER_CMD_PRIVATE_EXPEDITED)) sched_yield();
}

}  // namespace vram::base
