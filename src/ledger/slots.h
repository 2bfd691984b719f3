#pragma once

// Which process sits in which slot of a job.
//
// An owner is a process (pid and start time, so that a reused pid is somebody
// else) in its pid namespace. Both are one word, changed by one swap: nobody
// ever judges a process by the namespace of another. One bit of the identity
// says that the owner is dead and its shares are being given back: from then on
// the slot is nobody's until every share is zero and the word is cleared.

#include <cstdint>

#include "ledger/word.h"
#include "ledger/world.h"
#include "wire/job_layout.h"

namespace vram::ledger {

inline constexpr std::uint32_t kNoSlot = ~std::uint32_t{0};
inline constexpr std::uint64_t kReaping = std::uint64_t{1} << 63;

struct Owner {
  std::uint64_t identity;       // 0: the slot is free; see base/process_identity.h
  std::uint64_t pid_namespace;  // inode
};

inline bool operator==(const Owner& a, const Owner& b) {
  return a.identity == b.identity && a.pid_namespace == b.pid_namespace;
}

// True when somebody who may still charge sits there.
inline bool occupied(std::uint64_t identity) { return identity != 0 && !(identity & kReaping); }

// One past the highest slot ever taken; no more than there are, whatever a damaged file says.
inline std::uint32_t slots_used(const wire::Job& job) {
  const std::uint32_t used = job.header.slots_used.load(std::memory_order_acquire);
  return used < wire::kMaxProcesses ? used : wire::kMaxProcesses;
}

inline std::uint64_t identity_in(const wire::Job& job, std::uint32_t slot) {
  return __atomic_load_n(&job.owner[slot].lo, __ATOMIC_ACQUIRE);
}

inline Owner owner_of(const wire::Job& job, std::uint32_t slot) {
  for (;;) {
    const std::uint64_t identity = identity_in(job, slot);
    const std::uint64_t space = __atomic_load_n(&job.owner[slot].hi, __ATOMIC_ACQUIRE);
    if (identity_in(job, slot) == identity) return {identity, space};
  }
}

inline bool swap_owner(wire::Job& job, std::uint32_t slot, const Owner& from, const Owner& to) {
  return swap(job.owner[slot], {from.identity, from.pid_namespace},
              {to.identity, to.pid_namespace});
}

// Takes a free slot. kNoSlot: all are taken by the living, or the state
// folder's file system is full.
[[nodiscard]] std::uint32_t claim_slot(wire::Job& job, const Owner& owner, const World& world);

}  // namespace vram::ledger
