// What another interface of the process does with a simulated card: see
// src/sim/external_memory_api.cc.
#pragma once

#include <cuda.h>

#include <cstddef>
#include <cstdint>

extern "C" CUresult vram_sim_foreign_memory(CUdevice device, size_t bytes, uint64_t* memory,
                                            int* descriptor);
extern "C" CUresult vram_sim_free_foreign_memory(uint64_t memory);
