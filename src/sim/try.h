// Hands on what a called function answers unless it is CUDA_SUCCESS.
#pragma once

#define VRAM_SIM_TRY(call)                                       \
  do {                                                           \
    const CUresult vram_sim_result = (call);                     \
    if (vram_sim_result != CUDA_SUCCESS) return vram_sim_result; \
  } while (false)
