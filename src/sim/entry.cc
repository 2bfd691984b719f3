#include "sim/entry.h"

#include <cstring>

#include "sim/costs.h"
#include "sim/faults.h"

namespace vram::sim {
namespace {

std::atomic<CallSite*> g_sites{nullptr};

}  // namespace

void CallSite::register_site() {
  CallSite* head = g_sites.load(std::memory_order_relaxed);
  do {
    next_ = head;
  } while (!g_sites.compare_exchange_weak(head, this, std::memory_order_release));
}

CUresult CallSite::enter_governed(uint64_t call) {
  const Cost cost = cost_of(name_);
  bool has_fault = false;
  CUresult result = CUDA_SUCCESS;
  for (const Fault& fault : injected_faults()) {
    if (fault.name != name_) continue;
    has_fault = true;
    const bool due = fault.repeats ? call % fault.number == 0 : call == fault.number;
    if (due) result = fault.result;
  }
  if (cost.fixed_ns == 0 && !has_fault) plain_.store(true, std::memory_order_relaxed);
  if (cost.fixed_ns != 0) spend_ns(cost.fixed_ns);
  return result;
}

}  // namespace vram::sim

// For tests: how often this process has called the exported function of this name.
extern "C" uint64_t vram_sim_call_count(const char* name) {
  using vram::sim::CallSite;
  for (const CallSite* site = vram::sim::g_sites.load(std::memory_order_acquire); site != nullptr;
       site = site->next()) {
    if (std::strcmp(site->name(), name) == 0) return site->calls();
  }
  return 0;
}
