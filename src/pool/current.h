#pragma once

// Makes a context current in the calling thread for a while; null: none. Captures under way
// anywhere in the process survive what is called meanwhile: in the default mode a query by any
// thread ends them. errno is the program's own.

#include <errno.h>

#include "pool/driver_calls.h"

namespace vram::pool {

class Current {
 public:
  Current(const DriverCalls& driver, CUcontext context) : driver_(driver), errno_(errno) {
    if (driver.capture_mode != nullptr) {
      relaxed_ = driver.capture_mode(&mode_) == CUDA_SUCCESS;
    }
    pushed_ = context != nullptr && driver.context_push(context) == CUDA_SUCCESS;
  }
  ~Current() {
    CUcontext popped = nullptr;
    if (pushed_) (void)driver_.context_pop(&popped);
    if (relaxed_) (void)driver_.capture_mode(&mode_);
    errno = errno_;
  }
  Current(const Current&) = delete;
  Current& operator=(const Current&) = delete;

 private:
  const DriverCalls& driver_;
  int errno_;
  CUstreamCaptureMode mode_ = CU_STREAM_CAPTURE_MODE_RELAXED;
  bool relaxed_ = false;
  bool pushed_;
};

}  // namespace vram::pool
