// Entry points that succeed without doing anything, for there is nothing to do.
#include <cuda.h>

#include "sim/context.h"
#include "sim/entry.h"
#include "sim/try.h"

using namespace vram::sim;

// Of cudaProfiler.h, which not every set of headers has.
extern "C" {
CUresult cuProfilerStart(void);
CUresult cuProfilerStop(void);
}

CUresult cuProfilerStart(void) {
  VRAM_SIM_ENTER();
  return require_initialized();
}

CUresult cuProfilerStop(void) {
  VRAM_SIM_ENTER();
  return require_initialized();
}

CUresult cuFlushGPUDirectRDMAWrites(CUflushGPUDirectRDMAWritesTarget,
                                    CUflushGPUDirectRDMAWritesScope) {
  VRAM_SIM_ENTER();
  return require_initialized();
}
