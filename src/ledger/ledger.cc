#include "ledger/ledger.h"

#include "ledger/devices.h"
#include "ledger/fixed.h"
#include "ledger/settled.h"
#include "ledger/total.h"
#include "ledger/wait.h"

namespace vram::ledger {
namespace {

void raise_to(std::atomic<std::uint64_t>& highest, std::uint64_t value) {
  std::uint64_t seen = highest.load(std::memory_order_relaxed);
  while (seen < value && !highest.compare_exchange_weak(seen, value, std::memory_order_relaxed)) {
  }
}

}  // namespace

bool Account::try_reserve(std::uint64_t bytes) const {
  if (!add(*job_, device_, slot_, granules(bytes), most_granules(*job_, device_))) return false;
  count_fixed(granules(bytes), 1);
  if (may_stay(0)) return true;
  roll_back(bytes);
  return false;
}

bool Account::reserve(std::uint64_t bytes) const {
  if (record().turn.load(std::memory_order_relaxed) == 0 && try_reserve(bytes)) return true;
  if (settle_and_add(bytes)) return true;
  if (!may_stay(bytes)) return false;  // no denial: the limit has room for it
  record().denials.fetch_add(1, std::memory_order_relaxed);
  cell().denials.fetch_add(1, std::memory_order_relaxed);
  raise_to(record().denied_bytes, bytes);
  return false;
}

bool Account::settle_and_add(std::uint64_t bytes) const {
  Wait wait(*job_, device_, *world_);
  while (!wait.is_over()) {
    if (wait.may_try() && try_reserve(bytes)) return true;
    if (!may_stay(bytes) || never_fits(*job_, device_, granules(bytes))) {
      // Certain of what the living hold only when nobody who counted is dead.
      if (reap(*job_, *world_) == 0) return false;
      continue;
    }
    wait.reap_now_and_then();
    wait.nap();
  }
  return false;
}

void Account::commit(std::uint64_t bytes) const {
  count_committed(cell(), granules(bytes));
  Wait::note_settled(record());
}

void Account::roll_back(std::uint64_t bytes) const {
  count_fixed(granules(bytes), -1);
  subtract(*job_, device_, slot_, granules(bytes));
  Wait::note_settled(record());
}

void Account::begin_release(std::uint64_t bytes) const { count_released(cell(), granules(bytes)); }

void Account::end_release(std::uint64_t bytes) const {
  count_fixed(granules(bytes), -1);
  subtract(*job_, device_, slot_, granules(bytes));
  Wait::note_settled(record());
}

void Account::keep(std::uint64_t bytes) const { count_committed(cell(), granules(bytes)); }

void Account::charge(std::uint64_t bytes) const {
  (void)add(*job_, device_, slot_, granules(bytes), kMaxSum);
  count_fixed(granules(bytes), 1);
  count_committed(cell(), granules(bytes));
}

void Account::uncharge(std::uint64_t bytes) const {
  count_released(cell(), granules(bytes));
  end_release(bytes);
}

bool Account::may_stay(std::uint64_t more) const {
  const bool moves = moves_ && job_->header.stays == 0 && job_->parking[slot_].pinned.load() == 0;
  return moves || ledger::may_stay(*job_, device_, more);
}

std::uint64_t Account::left() const {
  const Usage now = usage();
  const std::uint64_t within = now.limit > now.used ? now.limit - now.used : 0;
  if (may_stay(within)) return within;
  const std::uint64_t stay = record().stay_limit.load(), fixed = fixed_bytes(*job_, device_);
  return stay > fixed ? stay - fixed : 0;
}

void Account::settle_down(std::uint64_t bytes) const {
  Account staying = *this;
  staying.moves_ = false;
  staying.count_fixed(granules(bytes), 1);
}

// Only where anything moves: other jobs pay nothing for it.
void Account::count_fixed(std::uint64_t count, std::int64_t sign) const {
  if (moves_ || job_->header.pools != wire::Pools::kElastic) return;
  job_->fixed[device_][slot_].fetch_add(static_cast<std::uint64_t>(sign) * count);
}

bool Account::try_charge_credit(std::uint64_t bytes) const {
  add_part(wire::Part::kCredits, static_cast<std::int64_t>(bytes));
  // Small, and under calls that take what moves: it is not what a stay limit is for.
  if (moving().try_reserve(bytes)) {
    settle_down(bytes);
    commit(bytes);
    return true;
  }
  add_part(wire::Part::kCredits, -static_cast<std::int64_t>(bytes));
  return false;
}

void Account::uncharge_credit(std::uint64_t bytes) const {
  uncharge(bytes);
  add_part(wire::Part::kCredits, -static_cast<std::int64_t>(bytes));
}

void Account::add_part(wire::Part part, std::int64_t bytes) const {
  cell().part[static_cast<std::size_t>(part)].fetch_add(static_cast<std::uint64_t>(bytes),
                                                        std::memory_order_relaxed);
}

std::uint64_t Account::part(wire::Part part) const {
  return cell().part[static_cast<std::size_t>(part)].load(std::memory_order_relaxed);
}

bool Account::swap_part(wire::Part part, std::uint64_t from, std::uint64_t to) const {
  return cell().part[static_cast<std::size_t>(part)].compare_exchange_strong(from, to);
}

std::uint64_t Account::context_bytes() const {
  return part(wire::Part::kContext) + beside_bytes(*job_, device_, slot_);
}

Usage Account::usage() const {
  const wire::DeviceAccount& device = record();
  return {total_bytes(*job_, device_), device.limit.load(std::memory_order_relaxed),
          device.peak.load(std::memory_order_relaxed),
          device.denials.load(std::memory_order_relaxed)};
}

std::uint64_t Account::own_bytes() const { return share_bytes(*job_, device_, slot_); }

std::uint64_t Account::own_pending() const {
  return pending_of(*job_, device_, slot_) * wire::kGranule;
}

Account::Mark Account::mark() const {
  Mark mark{cell().committed.load(std::memory_order_acquire),
            cell().released.load(std::memory_order_acquire), own_pending() == 0};
  if (cell().committed.load(std::memory_order_acquire) != mark.committed ||
      cell().released.load(std::memory_order_acquire) != mark.released) {
    mark.still = false;
  }
  return mark;
}

std::uint64_t share_bytes(const wire::Job& job, std::uint32_t device, std::uint32_t slot) {
  return shares_of(job, device, slot) * wire::kGranule;
}

std::uint64_t beside_bytes(const wire::Job& job, std::uint32_t device, std::uint32_t slot) {
  return share_at(job, device, beside_of(slot)) * wire::kGranule;
}

bool measure_beside(wire::Job& job, std::uint32_t device, std::uint32_t slot, const Owner& owner,
                    std::uint64_t from, std::uint64_t to) {
  return set_beside(job, device, slot, owner, granules(from), granules(to));
}

std::uint64_t total_bytes(const wire::Job& job, std::uint32_t device) {
  return total_of(job, device) * wire::kGranule;
}

}  // namespace vram::ledger
