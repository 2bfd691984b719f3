#pragma once

// A handler that only passes the gate, and while none is up only leads to the driver.
//
// It adds a few nanoseconds to a launch of few microseconds, and what it adds is moving arguments
// rather than the gate. So the driver is called at one place, whichever way leads there, and
// nothing before it calls anything: arguments in registers stay there, and those on the stack are
// pushed once more from where they lie. bench/gate_cost measures it.

#include "interpose/export.h"
#include "residency/gate.h"

namespace vram::interpose {

template <auto kFunction>
struct ThroughGate;

template <typename... Args, CUresult (*driver::Real::*kFunction)(Args...)>
struct ThroughGate<kFunction> {
  [[gnu::always_inline]] static CUresult call(Args... args) {
    CUresult (*function)(Args...) = driver::real.*kFunction;
    residency::Gate::Inside inside{nullptr, 0};
    if (function == nullptr) [[unlikely]] {
      function = slowly;
    } else if (residency::Gate::is_up()) {
      inside = residency::Gate::enter_quickly();
      if (inside.word == nullptr) [[unlikely]]
        function = slowly;
    }
    if constexpr (kInRegisters) {
      if (inside.word == nullptr) return function(args...);
    }
    CUresult result = function(args...);
    if constexpr (!kInRegisters) only_here(result);
    if (inside.word != nullptr) residency::Gate::leave(inside);
    return result;
  }
  // What takes more than a look: the driver is not there yet, has no such function, or the gate is
  // not open.
  [[gnu::noinline, gnu::cold]] static CUresult slowly(Args... args) {
    VRAM_HAS(driver::real.*kFunction);
    const residency::Through through;
    return (driver::real.*kFunction)(args...);
  }

 private:
  static constexpr bool kInRegisters = sizeof...(Args) <= 6;  // the rest lies on the stack

  // Keeps the compiler from a second place with the same call, a jump where nothing is left to do:
  // a jump's arguments go where the caller's are, so all of them would be loaded first.
  [[gnu::always_inline]] static void only_here(CUresult& result) {
    asm volatile("" : "+r"(result));
  }
};

}  // namespace vram::interpose

#define VRAM_GATED(symbol, ...) \
  return vram::interpose::ThroughGate<&vram::driver::Real::symbol>::call(__VA_ARGS__)
