#pragma once

// What moving memory needs of the driver and of the host; the interposer fills the table with the
// real functions, a test with its own.

#include <cstdint>

#include "driver/cuda_api.h"

namespace vram::residency {

struct Calls {
  decltype(&::cuMemCreate) create;
  decltype(&::cuMemRelease) release;
  decltype(&::cuMemMap) map;
  decltype(&::cuMemUnmap) unmap;
  decltype(&::cuMemSetAccess) set_access;
  decltype(&::cuMemcpyDtoHAsync_v2) copy_out;
  decltype(&::cuMemcpyHtoDAsync_v2) copy_in;
  decltype(&::cuStreamCreate) stream_create;
  decltype(&::cuStreamDestroy_v2) stream_destroy;
  decltype(&::cuStreamSynchronize) stream_synchronize;
  decltype(&::cuCtxPushCurrent_v2) context_push;
  decltype(&::cuCtxPopCurrent_v2) context_pop;
  decltype(&::cuMemHostRegister_v2) host_register;  // may be null: copies are slower then
  decltype(&::cuMemHostUnregister) host_unregister;
  CUcontext (*context_of)(CUdevice);  // one that lives on the card; null: none
  std::uint64_t (*host_room)();       // bytes that may be taken of the host's memory; host_room.h
};

// A context current in the calling thread, for a scope.
class InContext {
 public:
  InContext(const Calls& driver, CUcontext context)
      : driver_(driver),
        pushed_(context != nullptr && driver.context_push(context) == CUDA_SUCCESS) {}
  ~InContext() {
    CUcontext popped = nullptr;
    if (pushed_) (void)driver_.context_pop(&popped);
  }
  InContext(const InContext&) = delete;
  InContext& operator=(const InContext&) = delete;
  explicit operator bool() const { return pushed_; }

 private:
  const Calls& driver_;
  bool pushed_;
};

}  // namespace vram::residency
