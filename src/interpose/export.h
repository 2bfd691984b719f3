#pragma once

// How a handler begins.

#include "driver/real.h"
#include "interpose/caretaker.h"
#include "interpose/process.h"
#include "residency/gate.h"

#define VRAM_EXPORT extern "C" __attribute__((visibility("default")))

// The driver is loaded and has this function; else the answer a missing driver gives.
#define VRAM_LOADED(symbol) VRAM_HAS(vram::driver::real.symbol)
#define VRAM_HAS(function)                                \
  if (!vram::driver::load()) return CUDA_ERROR_NO_DEVICE; \
  if ((function) == nullptr) return CUDA_ERROR_NOT_SUPPORTED

// The same; a call made by the driver while it serves a call of ours goes straight through, and a
// process that should be governed but is not is refused.
#define VRAM_ENTER(symbol, ...)                                      \
  VRAM_LOADED(symbol);                                               \
  vram::interpose::Guard guard;                                      \
  if (guard.nested()) return vram::driver::real.symbol(__VA_ARGS__); \
  if (vram::interpose::refused()) return CUDA_ERROR_OPERATING_SYSTEM

// The same for a call that may touch device memory: it passes the gate.
#define VRAM_PASS(symbol, ...)     \
  VRAM_ENTER(symbol, __VA_ARGS__); \
  const vram::residency::Through through

// The same for a call that only gives back.
#define VRAM_PASS_BACK(symbol, ...)                        \
  VRAM_ENTER(symbol, __VA_ARGS__);                         \
  if (vram::interpose::ends_parked()) return CUDA_SUCCESS; \
  const vram::residency::Through through
