// cuProfiler…: taken, without a profiler to start.
#include <cuda.h>

#include "sim/stream_entry.h"
#include "sim/try.h"

namespace vram::sim {
namespace {

CUresult switch_profiler() {
  Context* context = nullptr;
  return require_usable_context(&context);
}

}  // namespace
}  // namespace vram::sim

using namespace vram::sim;

extern "C" {

// Declared in cudaProfiler.h, which comes in a package of its own.
CUresult CUDAAPI cuProfilerStart();
CUresult CUDAAPI cuProfilerStop();

VRAM_SIM_ONE(cuProfilerStart, switch_profiler, (), ())
VRAM_SIM_ONE(cuProfilerStop, switch_profiler, (), ())

}  // extern "C"
