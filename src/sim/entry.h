// What every entry point of the simulated driver begins with: count the call, take the time that
// the real one takes, fail when a fault is injected.
//
//   CUresult cuMemFoo(...) {
//     VRAM_SIM_ENTER();
//
// A call site is known by the exported symbol's name. Without faults and costs the entry adds one
// atomic increment. Threads: any.
#pragma once

#include <cuda.h>

#include <atomic>
#include <cstdint>

namespace vram::sim {

class CallSite {
 public:
  constexpr explicit CallSite(const char* name) : name_(name) {}
  CallSite(const CallSite&) = delete;
  CallSite& operator=(const CallSite&) = delete;

  // The injected error of this call, usually CUDA_SUCCESS.
  [[nodiscard]] CUresult enter() {
    const uint64_t call = calls_.fetch_add(1, std::memory_order_relaxed) + 1;
    if (call == 1) register_site();
    return plain_.load(std::memory_order_relaxed) ? CUDA_SUCCESS : enter_governed(call);
  }

  [[nodiscard]] const char* name() const { return name_; }
  [[nodiscard]] uint64_t calls() const { return calls_.load(std::memory_order_relaxed); }
  [[nodiscard]] CallSite* next() const { return next_; }

 private:
  void register_site();
  CUresult enter_governed(uint64_t call);

  const char* name_;
  std::atomic<uint64_t> calls_{0};
  std::atomic<bool> plain_{false};  // known to have neither fault nor cost
  CallSite* next_ = nullptr;
};

}  // namespace vram::sim

// For functions that return a CUresult; __func__ is the exported name.
#define VRAM_SIM_ENTER()                                                                           \
  static ::vram::sim::CallSite vram_sim_site{__func__};                                            \
  if (const CUresult vram_sim_injected = vram_sim_site.enter(); vram_sim_injected != CUDA_SUCCESS) \
  return vram_sim_injected
