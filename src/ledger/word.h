#pragma once

// The two 16-byte words that make the account exact although any process may be
// killed between any two instructions.
//
// A job's total on a device and the share of each of its processes are
// different words in memory, and no instruction changes two words. So the total
// carries, beside the sum, the *last operation*: which slot's share becomes
// what. Whoever wants to make the next operation first writes the last one into
// its slot ("helps"), then swaps the total. At every moment
//
//     total = sum of all shares, the last operation counted as written
//
// and nobody has to survive for that. Every operation has a tag of its own, so
// a helper that slept cannot write an old share: the share's word carries the
// tag of the operation that wrote it. Tags wrap after 2^37 operations (more
// than three hours of nothing else, at ten million a second); a mistake would
// need a share untouched for exactly that many operations.
//
// total:  lo = sum (39 bits) | place (13) | share, low part (12)
//         hi = share, high part (27) | tag (37)
// share:  lo = granules, hi = tag
//
// A slot has two shares, each in a place of its own: what its process charged,
// and what was measured beside that, by whoever measured.
//
// Threads: all functions may be called by any number of threads and processes
// at once.

#include <cstdint>

#include "wire/job_layout.h"

namespace vram::ledger {

inline constexpr unsigned kSumBits = 39;
inline constexpr unsigned kPlaceBits = 13;
inline constexpr unsigned kTagBits = 37;
inline constexpr std::uint64_t kMaxSum = (std::uint64_t{1} << kSumBits) - 1;  // granules
inline constexpr std::uint64_t kTagMask = (std::uint64_t{1} << kTagBits) - 1;
static_assert(2 * wire::kMaxProcesses <= (1u << kPlaceBits));

// Which share: twice the slot, and one more for what is beside.
using Place = std::uint32_t;
constexpr Place charge_of(std::uint32_t slot) { return slot * 2; }
constexpr Place beside_of(std::uint32_t slot) { return slot * 2 + 1; }

struct Total {
  std::uint64_t sum;    // granules, over the whole job
  std::uint64_t share;  // granules at `place` after the last operation
  std::uint64_t tag;    // of the last operation
  Place place;          // of the last operation
};

inline wire::Word128 pack(const Total& t) {
  constexpr unsigned low = 64 - kSumBits - kPlaceBits;
  return {t.sum | std::uint64_t{t.place} << kSumBits | t.share << (kSumBits + kPlaceBits),
          (t.share >> low) | t.tag << (64 - kTagBits)};
}

inline Total unpack(const wire::Word128& w) {
  constexpr unsigned low = 64 - kSumBits - kPlaceBits;
  constexpr std::uint64_t high_mask = (std::uint64_t{1} << (64 - kTagBits)) - 1;
  return {w.lo & kMaxSum, (w.lo >> (kSumBits + kPlaceBits)) | (w.hi & high_mask) << low,
          w.hi >> (64 - kTagBits),
          static_cast<std::uint32_t>(w.lo >> kSumBits & ((1u << kPlaceBits) - 1))};
}

// Reads a word that others swap. The high half of either word holds its tag,
// and every swap changes the tag: two equal high halves enclose a low half of
// the same swap.
inline wire::Word128 read(const wire::Word128& word) {
  for (;;) {
    const std::uint64_t hi = __atomic_load_n(&word.hi, __ATOMIC_ACQUIRE);
    const std::uint64_t lo = __atomic_load_n(&word.lo, __ATOMIC_ACQUIRE);
    if (__atomic_load_n(&word.hi, __ATOMIC_ACQUIRE) == hi) return {lo, hi};
  }
}

// In assembly, because the thread sanitizer's own 16-byte swap takes a lock of the process: other
// processes would not see it.
inline bool swap(wire::Word128& word, const wire::Word128& from, const wire::Word128& to) {
  bool done;
  std::uint64_t lo = from.lo;
  std::uint64_t hi = from.hi;
  asm volatile("lock cmpxchg16b %1"
               : "=@ccz"(done), "+m"(word), "+a"(lo), "+d"(hi)
               : "b"(to.lo), "c"(to.hi)
               : "memory");
  return done;
}

}  // namespace vram::ledger
