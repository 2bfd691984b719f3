#include "ledger/settled.h"

#include "ledger/devices.h"
#include "ledger/total.h"

namespace vram::ledger {
namespace {

struct Pass {
  std::uint64_t counted = 0;
  std::uint64_t beside = 0;
};

Pass committed_by_all(const wire::Job& job, std::uint32_t device, std::uint32_t slots) {
  Pass pass;
  for (std::uint32_t slot = 0; slot < slots; ++slot) {
    pass.counted += job.cell[device][slot].committed.load(std::memory_order_acquire);
    pass.beside += read(job.cell[device][slot].beside).lo;
  }
  return pass;
}

// False: somebody is being reaped.
bool released_by_all(const wire::Job& job, std::uint32_t device, std::uint32_t slots, Pass* pass) {
  for (std::uint32_t slot = 0; slot < slots; ++slot) {
    // Before the count: a slot that is free again was settled first.
    if ((identity_in(job, slot) & kReaping) != 0) return false;
    pass->counted += job.cell[device][slot].released.load(std::memory_order_acquire);
    pass->beside += read(job.cell[device][slot].beside).lo;
  }
  return true;
}

}  // namespace

bool never_fits(const wire::Job& job, std::uint32_t device, std::uint64_t count) {
  const std::uint32_t slots = slots_used(job);
  const Pass committed = committed_by_all(job, device, slots);
  const std::uint64_t most = most_granules(job, device);
  if (count > most) return true;
  Pass released;
  if (!released_by_all(job, device, slots, &released)) return false;
  if (committed.beside != released.beside) return false;
  const auto settled =
      static_cast<std::int64_t>(committed.counted - released.counted + committed.beside);
  return settled > 0 && static_cast<std::uint64_t>(settled) > most - count;
}

std::uint64_t pending_of(const wire::Job& job, std::uint32_t device, std::uint32_t slot) {
  const wire::Cell& cell = job.cell[device][slot];
  for (;;) {
    const std::uint64_t committed = cell.committed.load(std::memory_order_acquire);
    const std::uint64_t released = cell.released.load(std::memory_order_acquire);
    const std::uint64_t share = share_at(job, device, charge_of(slot));
    if (cell.committed.load(std::memory_order_acquire) == committed &&
        cell.released.load(std::memory_order_acquire) == released) {
      return share - (committed - released);
    }
  }
}

void forget_settled(wire::Job& job, std::uint32_t device, std::uint32_t slot, const Owner& owner) {
  wire::Cell& cell = job.cell[device][slot];
  const std::uint64_t committed = cell.committed.load(std::memory_order_acquire);
  std::uint64_t released = cell.released.load(std::memory_order_acquire);
  // After the counts, which are the owner's then. A next owner's `released` is
  // never again what is expected here, so a reaper that sleeps now cannot touch
  // it.
  if (released == committed || !(owner_of(job, slot) == owner)) return;
  cell.released.compare_exchange_strong(released, committed);
}

}  // namespace vram::ledger
