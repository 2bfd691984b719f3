// Gives back what dead processes held.

#include "ledger/ledger.h"
#include "ledger/settled.h"
#include "ledger/slots.h"
#include "ledger/total.h"

namespace vram::ledger {
namespace {

std::uint32_t devices_of(const wire::Job& job) {
  std::uint32_t count = 0;
  while (count < wire::kMaxDevices && job.device[count].key.load(std::memory_order_acquire) != 0) {
    ++count;
  }
  return count;
}

// A measurement may reach a slot that was freed a moment before.
void return_late(wire::Job& job, std::uint32_t devices, std::uint32_t slot) {
  for (std::uint32_t d = 0; d < devices; ++d) {
    if (read(job.cell[d][slot].beside).lo != 0) return_shares(job, d, slot, {0, 0});
  }
}

bool reap_slot(wire::Job& job, std::uint32_t devices, std::uint32_t slot, const World& world) {
  Owner owner = owner_of(job, slot);
  if (owner.identity == 0) {
    return_late(job, devices, slot);
    return false;
  }
  if (occupied(owner.identity)) {
    if (world.alive(owner.identity, owner.pid_namespace)) return false;
    const Owner dead{owner.identity | kReaping, owner.pid_namespace};
    // Lost to another reaper: helped, since that one may be stopped half-way, and whoever called
    // counts on what the dead held.
    if (!swap_owner(job, slot, owner, dead) && !(owner_of(job, slot) == dead)) return false;
    owner = dead;
  }
  for (std::uint32_t d = 0; d < devices; ++d) {
    forget_settled(job, d, slot, owner);
    return_shares(job, d, slot, owner);
  }
  return swap_owner(job, slot, owner, {0, 0});
}

}  // namespace

std::uint32_t reap(wire::Job& job, const World& world) {
  std::uint32_t freed = 0;
  const std::uint32_t used = slots_used(job);
  for (std::uint32_t slot = 0; slot < used; ++slot) {
    // Read anew each time: a process may meet a card, charge and die while this
    // loop runs.
    freed += reap_slot(job, devices_of(job), slot, world);
  }
  return freed;
}

}  // namespace vram::ledger
