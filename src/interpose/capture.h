#pragma once

// Streams being captured. In the default capture mode a query such as a pool's attribute, made by
// any thread, ends the capture with an error (docs/design/driver-behaviour.md). The driver's own
// way out is the thread's capture mode: in relaxed mode the thread may ask.
//
// Captures under way are counted where they begin and end, so that a process without one asks the
// driver nothing about them. The count errs upwards only: a capture whose end failed stays counted.

#include "interpose/process.h"

namespace vram::interpose {

inline bool may_be_capturing() { return process().captures.load(std::memory_order_relaxed) != 0; }

class RelaxedCapture {
 public:
  RelaxedCapture() {
    if (!may_be_capturing()) return;
    active_ = driver::real.cuThreadExchangeStreamCaptureMode(&mode_) == CUDA_SUCCESS;
  }
  ~RelaxedCapture() {
    if (active_) driver::real.cuThreadExchangeStreamCaptureMode(&mode_);
  }
  RelaxedCapture(const RelaxedCapture&) = delete;
  RelaxedCapture& operator=(const RelaxedCapture&) = delete;

 private:
  CUstreamCaptureMode mode_ = CU_STREAM_CAPTURE_MODE_RELAXED;
  bool active_ = false;
};

// True also when the driver will not say: then the call itself goes to the driver unchanged.
inline bool is_capturing(decltype(&::cuStreamIsCapturing) ask, CUstream stream) {
  if (!may_be_capturing()) return false;
  CUstreamCaptureStatus status = CU_STREAM_CAPTURE_STATUS_NONE;
  return ask(stream, &status) != CUDA_SUCCESS || status != CU_STREAM_CAPTURE_STATUS_NONE;
}

// The same, but false when the driver will not say.
inline bool is_known_capturing(decltype(&::cuStreamIsCapturing) ask, CUstream stream) {
  CUstreamCaptureStatus status = CU_STREAM_CAPTURE_STATUS_NONE;
  return may_be_capturing() && ask(stream, &status) == CUDA_SUCCESS &&
         status != CU_STREAM_CAPTURE_STATUS_NONE;
}

}  // namespace vram::interpose
