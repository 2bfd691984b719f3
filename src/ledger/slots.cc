#include "ledger/slots.h"

#include "ledger/ledger.h"
#include "ledger/parking.h"
#include "ledger/settled.h"
#include "ledger/total.h"
#include "wire/job_file.h"

namespace vram::ledger {
namespace {

void raise_slots_used(wire::Job& job, std::uint32_t slot) {
  std::uint32_t used = job.header.slots_used.load(std::memory_order_relaxed);
  while (used <= slot && !job.header.slots_used.compare_exchange_weak(used, slot + 1)) {
  }
}

// Lowest first: what readers scan stays short.
std::uint32_t claim_free(wire::Job& job, const Owner& owner) {
  for (std::uint32_t slot = 0; slot < wire::kMaxProcesses; ++slot) {
    if (identity_in(job, slot) != 0) continue;
    if (wire::back_slot(&job, slot) != wire::FileError::kNone) return kNoSlot;
    // First, so that nobody charges in a slot that readers do not look at.
    raise_slots_used(job, slot);
    if (swap_owner(job, slot, {0, 0}, owner)) return slot;
  }
  return kNoSlot;
}

// What the last owner left, and what was measured for it too late.
void clear_slot(wire::Job& job, std::uint32_t slot, const Owner& owner) {
  start_anew(job.parking[slot]);
  for (std::uint32_t d = 0; d < wire::kMaxDevices; ++d) {
    if (job.device[d].key.load(std::memory_order_acquire) == 0) continue;
    wire::Cell& cell = job.cell[d][slot];
    forget_settled(job, d, slot, owner);
    return_shares(job, d, slot, owner);
    cell.peak.store(0, std::memory_order_relaxed);
    cell.denials.store(0, std::memory_order_relaxed);
    for (auto& part : cell.part) part.store(0, std::memory_order_relaxed);
    job.fixed[d][slot].store(0);
  }
}

}  // namespace

std::uint32_t claim_slot(wire::Job& job, const Owner& owner, const World& world) {
  std::uint32_t slot = claim_free(job, owner);
  if (slot == kNoSlot && reap(job, world) > 0) slot = claim_free(job, owner);
  if (slot != kNoSlot) clear_slot(job, slot, owner);
  return slot;
}

}  // namespace vram::ledger
