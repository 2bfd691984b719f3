#pragma once

// Changes of a job's total on a device together with one process's share;
// word.h has the protocol. Counts are granules.
//
// Threads: any, in any number of processes, each of which may die at any point.

#include <cstdint>

#include "ledger/slots.h"
#include "ledger/word.h"
#include "wire/job_layout.h"

namespace vram::ledger {

constexpr std::uint64_t granules(std::uint64_t bytes) {
  return bytes / wire::kGranule + (bytes % wire::kGranule != 0);
}

// Charges `count` to a slot. False: the total would be above `most`, and
// nothing changed.
[[nodiscard]] bool add(wire::Job& job, std::uint32_t device, std::uint32_t slot,
                       std::uint64_t count, std::uint64_t most);

// Never below zero: a charge that its owner overdraws is empty.
void subtract(wire::Job& job, std::uint32_t device, std::uint32_t slot, std::uint64_t count);

// What lies beside the charge becomes `to`. False: it is not `from` any more,
// or the slot is no longer that owner's, and nothing changes.
bool set_beside(wire::Job& job, std::uint32_t device, std::uint32_t slot, const Owner& owner,
                std::uint64_t from, std::uint64_t to);

// Makes both shares of a slot zero, unless it is no longer that owner's.
void return_shares(wire::Job& job, std::uint32_t device, std::uint32_t slot, const Owner& owner);

// All exact at some moment during the call.
std::uint64_t share_at(const wire::Job& job, std::uint32_t device, Place place);
std::uint64_t shares_of(const wire::Job& job, std::uint32_t device, std::uint32_t slot);
std::uint64_t total_of(const wire::Job& job, std::uint32_t device);

}  // namespace vram::ledger
