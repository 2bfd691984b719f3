#pragma once

// Which process sits in which slot of a job.
//
// An identity is a pid together with its start time, so that a reused pid is somebody else. One bit
// says that the slot's owner is dead and its shares are being given back: from then on the slot is
// nobody's until every share is zero and the identity is cleared.

#include <cstdint>

#include "wire/job_layout.h"

namespace vram::ledger {

inline constexpr std::uint32_t kNoSlot = ~std::uint32_t{0};
inline constexpr std::uint64_t kReaping = std::uint64_t{1} << 63;

// Takes a free slot for `identity`. kNoSlot: all are taken by the living.
[[nodiscard]] std::uint32_t claim_slot(wire::Job& job, std::uint64_t identity,
                                       std::uint64_t pid_namespace);

// True when somebody who may still charge sits there.
inline bool occupied(std::uint64_t identity) { return identity != 0 && !(identity & kReaping); }

}  // namespace vram::ledger
