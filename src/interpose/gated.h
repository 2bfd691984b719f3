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
  // The driver has the function, and a gate is up. Nothing between the gate and the driver calls
  // anything, so the arguments stay in their registers.
  [[gnu::noinline]] static CUresult call(Args... args) {
    const residency::Gate::Inside inside = residency::Gate::enter_quickly();
    if (inside.word == nullptr) [[unlikely]]
      return slowly(args...);
    const CUresult result = (driver::real.*kFunction)(args...);
    residency::Gate::leave(inside);
    return result;
  }
  [[gnu::noinline, gnu::cold]] static CUresult slowly(Args... args) {
    VRAM_HAS(driver::real.*kFunction);
    const residency::Through through;
    return (driver::real.*kFunction)(args...);
  }
};

}  // namespace vram::interpose

#define VRAM_GATED(symbol, ...)                                              \
  using Passing = vram::interpose::ThroughGate<&vram::driver::Real::symbol>; \
  if (vram::driver::real.symbol == nullptr) [[unlikely]] {                   \
    return Passing::slowly(__VA_ARGS__);                                     \
  }                                                                          \
  if (vram::residency::Gate::is_up()) [[unlikely]]                           \
    return Passing::call(__VA_ARGS__);                                       \
  return vram::driver::real.symbol(__VA_ARGS__)
