#pragma once

// A handler that only passes the gate. What it does beyond a jump to the driver is a function of
// its own, so that while no gate is up the jump is all there is: arguments stay where they are.

#include "interpose/export.h"
#include "residency/gate.h"

namespace vram::interpose {

template <auto kFunction>
struct ThroughGate;

template <typename... Args, CUresult (*driver::Real::*kFunction)(Args...)>
struct ThroughGate<kFunction> {
  [[gnu::noinline]] static CUresult call(Args... args) {
    VRAM_HAS(driver::real.*kFunction);
    const residency::Through through;
    return (driver::real.*kFunction)(args...);
  }
};

}  // namespace vram::interpose

#define VRAM_GATED(symbol, ...)                                                             \
  if (vram::driver::real.symbol != nullptr && !vram::residency::Gate::is_up()) [[likely]] { \
    return vram::driver::real.symbol(__VA_ARGS__);                                          \
  }                                                                                         \
  return vram::interpose::ThroughGate<&vram::driver::Real::symbol>::call(__VA_ARGS__)
