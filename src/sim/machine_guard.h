// The lock of a machine's shared state, which outlives any process that holds it.
#pragma once

#include <pthread.h>

#include <cerrno>

#include "sim/machine.h"
#include "sim/machine_layout.h"

namespace vram::sim {

class Machine::Guard {
 public:
  explicit Guard(Machine& machine) : layout_(*machine.layout_) {
    if (::pthread_mutex_lock(&layout_.mutex) == EOWNERDEAD) {
      ::pthread_mutex_consistent(&layout_.mutex);
      machine.recompute();
    }
  }
  ~Guard() { ::pthread_mutex_unlock(&layout_.mutex); }
  Guard(const Guard&) = delete;
  Guard& operator=(const Guard&) = delete;

 private:
  MachineLayout& layout_;
};

}  // namespace vram::sim
