#include "ledger/total.h"

#include "ledger/credits.h"

namespace vram::ledger {
namespace {

struct Snapshot {
  wire::Word128 word;
  Total total;
};

Snapshot look(const wire::Job& job, std::uint32_t device) {
  const wire::Word128 word = read(job.device[device].total);
  return {word, unpack(word)};
}

const wire::Word128& word_at(const wire::Job& job, std::uint32_t device, Place place) {
  const wire::Cell& cell = job.cell[device][place / 2];
  return place % 2 == 0 ? cell.charge : cell.beside;
}

wire::Word128& word_at(wire::Job& job, std::uint32_t device, Place place) {
  return const_cast<wire::Word128&>(word_at(const_cast<const wire::Job&>(job), device, place));
}

// Writes the last operation into its place, unless that has been done. Every
// share read afterwards is exact as long as the total stays what it is.
void help(wire::Job& job, std::uint32_t device, const Snapshot& seen) {
  wire::Word128& word = word_at(job, device, seen.total.place);
  for (;;) {
    const wire::Word128 old = read(word);
    if (old.hi == seen.total.tag) return;
    // Somebody made the next operation, and helped this one first.
    if (!(read(job.device[device].total) == seen.word)) return;
    if (swap(word, old, {seen.total.share, seen.total.tag})) return;
  }
}

std::uint64_t share_in(const wire::Job& job, std::uint32_t device, const Total& total,
                       Place place) {
  return total.place == place ? total.share : read(word_at(job, device, place)).lo;
}

// The next operation: the share at `place` becomes `share`, the sum follows.
// False: somebody else made another one.
bool advance(wire::Job& job, std::uint32_t device, const Snapshot& from, Place place,
             std::uint64_t old, std::uint64_t share) {
  // Only in a damaged file is the sum less than one of its shares.
  const std::uint64_t others = from.total.sum > old ? from.total.sum - old : 0;
  const Total next{others + share, share, (from.total.tag + 1) & kTagMask, place};
  const wire::Word128 word = pack(next);
  if (!swap(job.device[device].total, from.word, word)) return false;
  help(job, device, {word, next});
  return true;
}

void raise_to(std::atomic<std::uint64_t>& peak, std::uint64_t value) {
  std::uint64_t seen = peak.load(std::memory_order_relaxed);
  while (seen < value && !peak.compare_exchange_weak(seen, value, std::memory_order_relaxed)) {
  }
}

void note_peaks(wire::Job& job, std::uint32_t device, std::uint32_t slot, std::uint64_t sum,
                std::uint64_t shares) {
  raise_to(job.device[device].peak, in_use(job, device, sum * wire::kGranule));
  raise_to(job.cell[device][slot].peak, shares * wire::kGranule);
}

void return_share(wire::Job& job, std::uint32_t device, std::uint32_t slot, Place place,
                  const Owner& owner) {
  for (;;) {
    const Snapshot now = look(job, device);
    help(job, device, now);
    // After the look: if another reaper finished and the slot found a new owner
    // who charged anything, the total has changed and the swap below fails.
    if (!(owner_of(job, slot) == owner)) return;
    const std::uint64_t share = share_in(job, device, now.total, place);
    if (share == 0 || advance(job, device, now, place, share, 0)) return;
  }
}

}  // namespace

bool add(wire::Job& job, std::uint32_t device, std::uint32_t slot, std::uint64_t count,
         std::uint64_t most) {
  const Place place = charge_of(slot);
  if (most > kMaxSum) most = kMaxSum;
  for (;;) {
    const Snapshot now = look(job, device);
    if (count > most || now.total.sum > most - count) return false;
    help(job, device, now);
    const std::uint64_t share = share_in(job, device, now.total, place);
    const std::uint64_t beside = share_in(job, device, now.total, beside_of(slot));
    if (!advance(job, device, now, place, share, share + count)) continue;
    note_peaks(job, device, slot, now.total.sum + count, share + count + beside);
    return true;
  }
}

void subtract(wire::Job& job, std::uint32_t device, std::uint32_t slot, std::uint64_t count) {
  const Place place = charge_of(slot);
  for (;;) {
    const Snapshot now = look(job, device);
    help(job, device, now);
    const std::uint64_t share = share_in(job, device, now.total, place);
    if (advance(job, device, now, place, share, share > count ? share - count : 0)) return;
  }
}

bool set_beside(wire::Job& job, std::uint32_t device, std::uint32_t slot, const Owner& owner,
                std::uint64_t from, std::uint64_t to) {
  const Place place = beside_of(slot);
  for (;;) {
    const Snapshot now = look(job, device);
    help(job, device, now);
    if (!(owner_of(job, slot) == owner)) return false;
    const std::uint64_t old = share_in(job, device, now.total, place);
    const std::uint64_t charge = share_in(job, device, now.total, charge_of(slot));
    // Compared against the total that the swap below expects.
    if (old != from || to > kMaxSum - (now.total.sum - old)) return false;
    if (!advance(job, device, now, place, old, to)) continue;
    note_peaks(job, device, slot, now.total.sum - old + to, charge + to);
    return true;
  }
}

void return_shares(wire::Job& job, std::uint32_t device, std::uint32_t slot, const Owner& owner) {
  return_share(job, device, slot, charge_of(slot), owner);
  return_share(job, device, slot, beside_of(slot), owner);
}

std::uint64_t share_at(const wire::Job& job, std::uint32_t device, Place place) {
  for (;;) {
    const Snapshot now = look(job, device);
    const std::uint64_t share = share_in(job, device, now.total, place);
    if (read(job.device[device].total) == now.word) return share;
  }
}

std::uint64_t shares_of(const wire::Job& job, std::uint32_t device, std::uint32_t slot) {
  for (;;) {
    const Snapshot now = look(job, device);
    const std::uint64_t charge = share_in(job, device, now.total, charge_of(slot));
    const std::uint64_t beside = share_in(job, device, now.total, beside_of(slot));
    if (read(job.device[device].total) == now.word) return charge + beside;
  }
}

std::uint64_t total_of(const wire::Job& job, std::uint32_t device) {
  return __atomic_load_n(&job.device[device].total.lo, __ATOMIC_ACQUIRE) & kMaxSum;
}

}  // namespace vram::ledger
