#include "ledger/ledger.h"

#include <sched.h>
#include <time.h>

#include "base/process_identity.h"
#include "ledger/slots.h"
#include "ledger/word.h"

namespace vram::ledger {
namespace {

constexpr std::uint64_t granules(std::uint64_t bytes) {
  return bytes / wire::kGranule + (bytes % wire::kGranule != 0);
}

// Writes the last operation of `total` into its slot, unless that has been done.
void help(wire::Job& job, std::uint32_t device, const wire::Word128& seen, const Total& total) {
  wire::Word128& word = job.cell[device][total.slot].charge;
  for (;;) {
    const wire::Word128 old = read(word);
    if (old.hi == total.tag) return;
    // Somebody made the next operation, and helped this one first.
    if (!(read(job.device[device].total) == seen)) return;
    if (swap(word, old, {total.share, total.tag})) return;
  }
}

// The job's total with its last operation written, so that every share read after it is exact as
// long as the total stays what it is.
struct Snapshot {
  wire::Word128 word;
  Total total;
};

Snapshot snapshot(wire::Job& job, std::uint32_t device) {
  const wire::Word128 word = read(job.device[device].total);
  const Total total = unpack(word);
  help(job, device, word, total);
  return {word, total};
}

bool advance(wire::Job& job, std::uint32_t device, const Snapshot& from, std::uint64_t sum,
             std::uint32_t slot, std::uint64_t share) {
  constexpr std::uint64_t tag_mask = (std::uint64_t{1} << kTagBits) - 1;
  const Total next{sum, share, (from.total.tag + 1) & tag_mask, slot};
  const wire::Word128 word = pack(next);
  if (!swap(job.device[device].total, from.word, word)) return false;
  help(job, device, word, next);
  return true;
}

std::uint64_t share_in(const wire::Job& job, std::uint32_t device, std::uint32_t slot) {
  return read(job.cell[device][slot].charge).lo;
}

void raise_to(std::atomic<std::uint64_t>& peak, std::uint64_t value) {
  std::uint64_t seen = peak.load(std::memory_order_relaxed);
  while (seen < value && !peak.compare_exchange_weak(seen, value, std::memory_order_relaxed)) {
  }
}

void note_peaks(wire::Job& job, std::uint32_t device, std::uint32_t slot, std::uint64_t sum,
                std::uint64_t share) {
  raise_to(job.device[device].peak, sum * wire::kGranule);
  raise_to(job.cell[device][slot].peak, share * wire::kGranule);
}

// `most` in bytes. False: the sum would be above it.
bool add(wire::Job& job, std::uint32_t device, std::uint32_t slot, std::uint64_t count,
         std::uint64_t most) {
  for (;;) {
    const Snapshot now = snapshot(job, device);
    if (count > kMaxSum - now.total.sum) return false;
    const std::uint64_t sum = now.total.sum + count;
    if (sum > most / wire::kGranule) return false;
    const std::uint64_t share = share_in(job, device, slot) + count;
    if (!advance(job, device, now, sum, slot, share)) continue;
    note_peaks(job, device, slot, sum, share);
    return true;
  }
}

// Never below zero: an account that was reaped while its owner was judged dead by mistake stays an
// account.
void subtract(wire::Job& job, std::uint32_t device, std::uint32_t slot, std::uint64_t count) {
  for (;;) {
    const Snapshot now = snapshot(job, device);
    const std::uint64_t share = share_in(job, device, slot);
    const std::uint64_t take = count < share ? count : share;
    if (advance(job, device, now, now.total.sum - take, slot, share - take)) return;
  }
}

std::uint64_t pending_of_living(const wire::Job& job, std::uint32_t device) {
  std::uint64_t sum = 0;
  const std::uint32_t used = job.header.slots_used.load(std::memory_order_acquire);
  for (std::uint32_t slot = 0; slot < used; ++slot) {
    if (!occupied(job.identity[slot].load(std::memory_order_acquire))) continue;
    sum += job.cell[device][slot].pending.load(std::memory_order_acquire);
  }
  return sum;
}

void return_share(wire::Job& job, std::uint32_t device, std::uint32_t slot,
                  std::uint64_t identity) {
  for (;;) {
    const Snapshot now = snapshot(job, device);
    // After the snapshot: if another reaper finished and the slot found a new owner who charged
    // anything, the total has changed and the swap below fails.
    if (job.identity[slot].load(std::memory_order_acquire) != identity) return;
    const std::uint64_t share = share_in(job, device, slot);
    if (share == 0) return;
    if (advance(job, device, now, now.total.sum - share, slot, 0)) return;
  }
}

bool reap_slot(wire::Job& job, std::uint32_t slot, const World& world) {
  std::uint64_t identity = job.identity[slot].load(std::memory_order_acquire);
  if (identity == 0) {
    // An adjustment may reach a slot that was freed a moment before.
    return_shares(job, slot, 0);
    return false;
  }
  if (!(identity & kReaping)) {
    const std::uint64_t space = job.process[slot].pid_namespace.load(std::memory_order_relaxed);
    if (world.alive(identity, space)) return false;
    if (!job.identity[slot].compare_exchange_strong(identity, identity | kReaping)) return false;
    identity |= kReaping;
  }
  return_shares(job, slot, identity);
  return job.identity[slot].compare_exchange_strong(identity, 0);
}

void nap_50us() {
  const timespec time{0, 50'000};
  nanosleep(&time, nullptr);
}

std::uint64_t monotonic_ms() {
  timespec now{};
  clock_gettime(CLOCK_MONOTONIC, &now);
  return static_cast<std::uint64_t>(now.tv_sec) * 1000 +
         static_cast<std::uint64_t>(now.tv_nsec) / 1'000'000;
}

}  // namespace

const World& real_world() {
  static constexpr World world{base::is_alive, nap_50us, monotonic_ms};
  return world;
}

bool Account::try_reserve(std::uint64_t bytes) const {
  std::atomic<std::uint64_t>& pending = job_->cell[device_][slot_].pending;
  pending.fetch_add(bytes, std::memory_order_acq_rel);
  const std::uint64_t limit = record().limit.load(std::memory_order_relaxed);
  if (add(*job_, device_, slot_, granules(bytes), limit)) return true;
  pending.fetch_sub(bytes, std::memory_order_acq_rel);
  return false;
}

bool Account::reserve(std::uint64_t bytes) const {
  if (try_reserve(bytes)) return true;
  if (settle_and_add(bytes)) return true;
  record().denials.fetch_add(1, std::memory_order_relaxed);
  job_->cell[device_][slot_].denials.fetch_add(1, std::memory_order_relaxed);
  raise_to(record().denied_bytes, bytes);
  return false;
}

bool Account::settle_and_add(std::uint64_t bytes) const {
  const std::uint64_t deadline = world_->now_ms() + kSettle_ms;
  for (;;) {
    const bool freed = reap(*job_, *world_) > 0;
    if (try_reserve(bytes)) return true;
    if (!freed && (never_fits(bytes) || world_->now_ms() >= deadline)) return false;
    world_->nap();
  }
}

// Certain only of a moment at which the total stood still: a charge is pending from before it
// enters the total until after it left again or was committed.
bool Account::never_fits(std::uint64_t bytes) const {
  const wire::Word128 before = read(record().total);
  const std::uint64_t pending = pending_of_living(*job_, device_);
  if (!(read(record().total) == before)) return false;
  const std::uint64_t used = unpack(before).sum * wire::kGranule;
  const std::uint64_t limit = record().limit.load(std::memory_order_relaxed);
  const std::uint64_t settled = used > pending ? used - pending : 0;
  return bytes > limit || settled > limit - bytes;
}

void Account::commit(std::uint64_t bytes) const {
  job_->cell[device_][slot_].pending.fetch_sub(bytes, std::memory_order_acq_rel);
}

void Account::roll_back(std::uint64_t bytes) const {
  uncharge(bytes);
  commit(bytes);
}

void Account::begin_release(std::uint64_t bytes) const {
  job_->cell[device_][slot_].pending.fetch_add(bytes, std::memory_order_acq_rel);
}

void Account::end_release(std::uint64_t bytes) const {
  uncharge(bytes);
  commit(bytes);
}

void Account::keep(std::uint64_t bytes) const { commit(bytes); }

void Account::charge(std::uint64_t bytes) const {
  (void)add(*job_, device_, slot_, granules(bytes), wire::kUnlimited);
}

void Account::uncharge(std::uint64_t bytes) const {
  subtract(*job_, device_, slot_, granules(bytes));
}

void Account::add_part(wire::Part part, std::int64_t bytes) const {
  job_->cell[device_][slot_].part[static_cast<std::size_t>(part)].fetch_add(
      static_cast<std::uint64_t>(bytes), std::memory_order_relaxed);
}

std::uint64_t Account::part(wire::Part part) const {
  return job_->cell[device_][slot_].part[static_cast<std::size_t>(part)].load(
      std::memory_order_relaxed);
}

bool Account::swap_part(wire::Part part, std::uint64_t from, std::uint64_t to) const {
  return job_->cell[device_][slot_].part[static_cast<std::size_t>(part)].compare_exchange_strong(
      from, to);
}

Usage Account::usage() const {
  const wire::DeviceAccount& device = record();
  return {total_bytes(*job_, device_), device.limit.load(std::memory_order_relaxed),
          device.peak.load(std::memory_order_relaxed),
          device.denials.load(std::memory_order_relaxed)};
}

std::uint64_t Account::own_bytes() const { return share_bytes(*job_, device_, slot_); }

std::uint64_t Account::own_pending() const {
  return job_->cell[device_][slot_].pending.load(std::memory_order_acquire);
}

std::uint64_t share_bytes(const wire::Job& job, std::uint32_t device, std::uint32_t slot) {
  for (;;) {
    const wire::Word128 word = read(job.device[device].total);
    const Total total = unpack(word);
    const std::uint64_t share = total.slot == slot ? total.share : share_in(job, device, slot);
    if (read(job.device[device].total) == word) return share * wire::kGranule;
  }
}

std::uint64_t total_bytes(const wire::Job& job, std::uint32_t device) {
  return unpack(read(job.device[device].total)).sum * wire::kGranule;
}

void return_shares(wire::Job& job, std::uint32_t slot, std::uint64_t identity) {
  for (std::uint32_t d = 0; d < wire::kMaxDevices; ++d) {
    if (job.device[d].key.load(std::memory_order_acquire) == 0) continue;
    return_share(job, d, slot, identity);
  }
}

void adjust(wire::Job& job, std::uint32_t device, std::uint32_t slot, std::uint64_t identity,
            std::int64_t bytes) {
  const std::uint64_t count = granules(static_cast<std::uint64_t>(bytes < 0 ? -bytes : bytes));
  for (;;) {
    const Snapshot now = snapshot(job, device);
    if (job.identity[slot].load(std::memory_order_acquire) != identity) return;
    const std::uint64_t share = share_in(job, device, slot);
    const std::uint64_t take = count < share ? count : share;
    const std::uint64_t sum = bytes < 0 ? now.total.sum - take : now.total.sum + count;
    const std::uint64_t next = bytes < 0 ? share - take : share + count;
    if (sum > kMaxSum) return;
    if (!advance(job, device, now, sum, slot, next)) continue;
    note_peaks(job, device, slot, sum, next);
    return;
  }
}

std::uint32_t reap(wire::Job& job, const World& world) {
  std::uint32_t freed = 0;
  const std::uint32_t used = job.header.slots_used.load(std::memory_order_acquire);
  for (std::uint32_t slot = 0; slot < used; ++slot) freed += reap_slot(job, slot, world);
  return freed;
}

}  // namespace vram::ledger
