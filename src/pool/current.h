#pragma once

// Makes a context current in the calling thread for a while; null: none. errno is the program's
// own.

#include <errno.h>

#include "pool/driver_calls.h"

namespace vram::pool {

class Current {
 public:
  Current(const DriverCalls& driver, CUcontext context) : driver_(driver), errno_(errno) {
    pushed_ = context != nullptr && driver.context_push(context) == CUDA_SUCCESS;
  }
  ~Current() {
    CUcontext popped = nullptr;
    if (pushed_) (void)driver_.context_pop(&popped);
    errno = errno_;
  }
  Current(const Current&) = delete;
  Current& operator=(const Current&) = delete;

 private:
  const DriverCalls& driver_;
  int errno_;
  bool pushed_;
};

}  // namespace vram::pool
