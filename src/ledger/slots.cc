#include "ledger/slots.h"

#include "ledger/ledger.h"
#include "ledger/word.h"

namespace vram::ledger {
namespace {

void raise_slots_used(wire::Job& job, std::uint32_t slot) {
  std::uint32_t used = job.header.slots_used.load(std::memory_order_relaxed);
  while (used <= slot && !job.header.slots_used.compare_exchange_weak(used, slot + 1)) {
  }
}

// What the last owner left beside its (already returned) shares. Done by the new owner, so that a
// reaper that slept through a hand-over has nothing it could wipe.
void clear_cells(wire::Job& job, std::uint32_t slot) {
  for (std::uint32_t d = 0; d < wire::kMaxDevices; ++d) {
    if (job.device[d].key.load(std::memory_order_acquire) == 0) continue;
    wire::Cell& cell = job.cell[d][slot];
    cell.pending.store(0, std::memory_order_relaxed);
    cell.peak.store(0, std::memory_order_relaxed);
    cell.denials.store(0, std::memory_order_relaxed);
    for (auto& part : cell.part) part.store(0, std::memory_order_relaxed);
  }
}

std::uint32_t take_first_free(wire::Job& job, std::uint64_t identity, std::uint32_t from,
                              std::uint32_t to) {
  for (std::uint32_t slot = from; slot < to; ++slot) {
    std::uint64_t expected = 0;
    if (job.identity[slot].load(std::memory_order_relaxed) != 0) continue;
    if (job.identity[slot].compare_exchange_strong(expected, identity)) return slot;
  }
  return kNoSlot;
}

std::uint32_t claim_free(wire::Job& job, std::uint64_t identity) {
  const std::uint32_t hint =
      job.header.claim_hint.load(std::memory_order_relaxed) % wire::kMaxProcesses;
  std::uint32_t slot = take_first_free(job, identity, hint, wire::kMaxProcesses);
  if (slot == kNoSlot) slot = take_first_free(job, identity, 0, hint);
  return slot;
}

}  // namespace

std::uint32_t claim_slot(wire::Job& job, std::uint64_t identity, std::uint64_t pid_namespace) {
  std::uint32_t slot = claim_free(job, identity);
  if (slot == kNoSlot && reap(job, real_world()) > 0) slot = claim_free(job, identity);
  if (slot == kNoSlot) return kNoSlot;
  raise_slots_used(job, slot);
  job.header.claim_hint.store(slot + 1, std::memory_order_relaxed);
  job.process[slot].pid_namespace.store(pid_namespace, std::memory_order_relaxed);
  clear_cells(job, slot);
  return_shares(job, slot, identity);
  return slot;
}

}  // namespace vram::ledger
