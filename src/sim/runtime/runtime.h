// The CUDA runtime interface over the driver interface, for programs that link the runtime as a
// shared library (nvcc -cudart shared). The vendor's own runtime does not accept a simulated
// driver; this one is written from the public headers alone and works with any driver.
//
// Model. Each device's primary context is retained when the device is first used and kept until
// cudaDeviceReset. A thread works on the device it chose, 0 at first; a context that the program
// made current through the driver interface is left in place. Every failed call is remembered for
// cudaGetLastError, by thread.
#pragma once

#include <cuda.h>
#include <cuda_runtime_api.h>

namespace vram::sim::runtime {

// Remembers a failure and hands it on. The two interfaces number their errors alike.
cudaError_t finish(CUresult result);
cudaError_t finish(cudaError_t error);

// Makes sure that the driver is up and the thread has a context.
[[nodiscard]] CUresult use_device();
[[nodiscard]] CUresult choose_device(int device);
[[nodiscard]] int chosen_device();
// Ends the primary context of the thread's device.
[[nodiscard]] CUresult reset_device();

// What the program's own object code registered. Each image is loaded when something in it is
// first used.
[[nodiscard]] CUresult kernel_of(const void* host_function, CUkernel* out);
[[nodiscard]] CUresult variable_of(const void* host_variable, CUdeviceptr* address, size_t* bytes);

[[nodiscard]] inline CUdeviceptr address_of(const void* pointer) {
  return reinterpret_cast<CUdeviceptr>(pointer);
}

}  // namespace vram::sim::runtime

#define VRAM_RT_TRY(call)                                      \
  do {                                                         \
    const CUresult vram_rt_result = (call);                    \
    if (vram_rt_result != CUDA_SUCCESS) return vram_rt_result; \
  } while (false)

// Defines `name`: the body is that of a function returning CUresult, run with a context current.
#define VRAM_RT(name, parameters, ...)                      \
  cudaError_t name parameters {                             \
    return ::vram::sim::runtime::finish([&]() -> CUresult { \
      VRAM_RT_TRY(::vram::sim::runtime::use_device());      \
      __VA_ARGS__                                           \
    }());                                                   \
  }

// Defines `name` and `name##_ptsz` of a function whose last parameter is `stream`; in the second,
// stream 0 is the thread's own.
#define VRAM_RT_STREAM(name, parameters, arguments, ...) \
  VRAM_RT(name, parameters, __VA_ARGS__)                 \
  extern "C" cudaError_t name##_ptsz parameters {        \
    if (stream == nullptr) stream = cudaStreamPerThread; \
    return name arguments;                               \
  }
