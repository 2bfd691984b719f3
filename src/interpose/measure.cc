#include "interpose/measure.h"

#include <time.h>
#include <unistd.h>

#include "base/process_identity.h"
#include "interpose/card.h"
#include "interpose/job.h"
#include "interpose/pools.h"
#include "ledger/slots.h"

namespace vram::interpose {
namespace {

using ledger::Account;
using wire::Part;

std::uint64_t named_bytes(const Account& account) {
  return account.part(Part::kBlocks) + account.part(Part::kVirtual) + account.part(Part::kPools) +
         account.part(Part::kGraphs);
}

// What stands in one slot before the card is read.
struct Named {
  std::uint64_t bytes;     // by calls
  std::uint64_t context;   // measured or priced, and charged
  std::uint64_t beside;    // measured beside
  std::uint64_t imported;  // from another interface, and charged
  Account::Mark mark;      // the first is right as long as no call is under way
};

Named named_in(const Account& account) {
  const Account::Mark mark = account.mark();
  return {named_bytes(account), account.part(Part::kContext),
          ledger::beside_bytes(*job(), account.device(), account.slot()), 0, mark};
}

// Makes the slot's context part what the card shows beside what calls account for. False: somebody
// else, who may have read the card later, has changed it meanwhile.
bool settle_slot(const Account& account, const ledger::Owner& owner, std::uint64_t held,
                 const Named& before) {
  const std::uint64_t measured = held > before.bytes ? held - before.bytes : 0;
  std::uint64_t beside = measured > before.context ? measured - before.context : 0;
  // A driver gives memory of pools back by itself, and only the process itself can ask its pools:
  // to anybody else it may seem to hold too little, never too much.
  const bool own = account.slot() == process().slot;
  beside -= least(beside, before.imported);
  if (!own && beside <= before.beside) return true;
  if (account.part(Part::kContext) != before.context ||
      !ledger::measure_beside(*job(), account.device(), account.slot(), owner, before.beside,
                              beside)) {
    return false;
  }
  // Charged too much: only the process itself may give its charges back.
  if (measured >= before.context || !own) return true;
  if (!account.swap_part(Part::kContext, before.context, measured)) return false;
  account.uncharge(before.context - measured);
  return true;
}

// One process of the job in one reading of the card.
bool settle_process(const CardReading& card, const Account& account, const ledger::Owner& owner,
                    const Named& before) {
  const Named after = named_in(account);
  if (!before.mark.still || !(before.mark == after.mark)) return false;
  for (unsigned i = 0; i < card.count; ++i) {
    if (card.process[i].pid != static_cast<unsigned>(base::pid_of(owner.identity))) continue;
    return settle_slot(account, owner, card.process[i].bytes + card.beside_rows, before);
  }
  return false;
}

std::uint64_t coarse_ms() {
  timespec now{};
  clock_gettime(CLOCK_MONOTONIC_COARSE, &now);
  return static_cast<std::uint64_t>(now.tv_sec) * 1000 +
         static_cast<std::uint64_t>(now.tv_nsec) / 1'000'000;
}

bool listed(const CardReading& card) {
  const auto self = static_cast<unsigned>(getpid());
  for (unsigned i = 0; i < card.count; ++i) {
    if (card.process[i].pid == self) return true;
  }
  return false;
}

}  // namespace

bool measure(Device& device) {
  constexpr int kTries = 4;
  const Account& account = device.account;
  const ledger::Owner owner = ledger::owner_of(*job(), account.slot());
  for (int i = 0; i < kTries; ++i) {
    // Before the card is read: what comes to be due from here on, this measurement may have missed.
    device.measure_due.store(0, std::memory_order_seq_cst);
    // On both sides: what the driver gave back by itself must not be named any more.
    settle_pools();
    Named before = named_in(account);
    // The card counts it with this process too where the interface is its own, or the one it came
    // from is gone. A neighbour cannot tell, and may count it twice until this process measures.
    before.imported = device.external.load(std::memory_order_relaxed);
    CardReading card{};
    if (!read_card(device, &card) || !listed(card)) return false;
    settle_pools();
    if (settle_process(card, account, owner, before)) return true;
  }
  device.measure_due.store(1, std::memory_order_seq_cst);
  return true;
}

bool measurable(Device& device) {
  CardReading card{};
  return read_card(device, &card) && listed(card);
}

void measure_if_due(Device& device) {
  if (device.measure_due.load(std::memory_order_relaxed) != 0) (void)measure(device);
}

void measure_job(Device& device) {
  const wire::Job& shared = *job();
  constexpr std::uint32_t kMost = 256;  // neighbours looked at; more would cost more than it tells
  Named before[kMost];
  const auto account_of = [&](std::uint32_t slot) {
    return Account(job(), device.account.device(), slot, &ledger::real_world());
  };
  std::uint32_t used = ledger::slots_used(shared);
  if (used > kMost) used = kMost;
  for (std::uint32_t slot = 0; slot < used; ++slot) before[slot] = named_in(account_of(slot));
  CardReading card{};
  if (!read_card(device, &card)) return;
  for (std::uint32_t slot = 0; slot < used; ++slot) {
    const ledger::Owner owner = ledger::owner_of(shared, slot);
    if (slot == process().slot || !ledger::occupied(owner.identity)) continue;
    (void)settle_process(card, account_of(slot), owner, before[slot]);
  }
}

void measure_near_limit(Device& device, std::uint64_t bytes) {
  constexpr std::uint64_t kZone = 512 * kMiB;
  constexpr std::uint64_t kEvery_ms = 4;
  const std::uint64_t left = device.account.moving().left();
  if (left > kZone && bytes < left - kZone) return;
  const std::uint64_t now = coarse_ms();
  std::uint64_t last = device.measured_ms.load(std::memory_order_relaxed);
  // One that is due is made up for as soon as there is a chance that it works.
  const bool due = device.measure_due.load(std::memory_order_relaxed) != 0;
  const bool early = now - last < kEvery_ms;
  if ((early && !(due && device.account.mark().still)) ||
      !device.measured_ms.compare_exchange_strong(last, now))
    return;
  (void)measure(device);
  measure_job(device);
}

bool over_limit(const Device& device) {
  const ledger::Usage usage = device.account.usage();
  return usage.used > usage.limit;
}

void return_price(Device& device, std::uint64_t price) {
  for (;;) {
    const std::uint64_t charged = device.account.part(Part::kContext);
    const std::uint64_t gone = least(charged, price);
    if (device.account.swap_part(Part::kContext, charged, charged - gone)) {
      return device.account.uncharge(gone);
    }
  }
}

void orphan(Device& device, Part part, std::uint64_t bytes) {
  if (bytes == 0) return;
  const Account& account = device.account;
  account.add_part(part, -static_cast<std::int64_t>(bytes));
  account.add_part(Part::kContext, static_cast<std::int64_t>(bytes));
  device.orphaned.fetch_add(bytes, std::memory_order_acq_rel);
}

void remeasure_orphans() {
  Process& self = process();
  for (std::uint32_t d = 0; d < self.device_count; ++d) {
    Device& device = self.device[d];
    const std::uint64_t orphaned = device.orphaned.load(std::memory_order_acquire);
    if (orphaned == 0) {
      measure_if_due(device);
      continue;
    }
    const std::uint64_t before = device.account.context_bytes();
    measure(device);
    const std::uint64_t after = device.account.context_bytes();
    if (after < before) {
      const std::uint64_t gone = before - after < orphaned ? before - after : orphaned;
      device.orphaned.fetch_sub(gone, std::memory_order_acq_rel);
    }
  }
}

void measure_shared() {
  Process& self = process();
  for (std::uint32_t d = 0; d < self.device_count; ++d) {
    measure_job(self.device[d]);
    (void)measure(self.device[d]);
  }
}

}  // namespace vram::interpose
