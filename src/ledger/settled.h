#pragma once

// How much of what a job holds is there to stay, as opposed to belonging to
// calls under way.
//
// Each process counts, on each device, what it ever committed and what it ever
// began to release; neither number falls, the difference is what it holds
// settled. To refuse a request one needs a moment at which everything settled
// left it no room. No single read gives the difference over all processes, but
// two passes bound it: first everything committed, then everything released.
// What was committed early less what was released late is no more than what was
// settled at any moment between the passes. So a refusal is certain, without
// that anything has to stand still. (What is measured beside the calls is
// settled too; it changes seldom, and must be the same in both passes.)
//
// A dead process's difference goes to zero before its slot is free; while it is
// being given back there is no certain answer.
//
// Counts are granules; they wrap, their differences do not. Threads: any.

#include <cstdint>

#include "ledger/slots.h"
#include "wire/job_layout.h"

namespace vram::ledger {

inline void count_committed(wire::Cell& cell, std::uint64_t count) {
  cell.committed.fetch_add(count, std::memory_order_acq_rel);
}

inline void count_released(wire::Cell& cell, std::uint64_t count) {
  cell.released.fetch_add(count, std::memory_order_acq_rel);
}

// True: at a moment during the call, `count` more than what was settled was
// over the limit.
bool never_fits(const wire::Job& job, std::uint32_t device, std::uint64_t count);

// What calls of this slot under way hold, granules; exact at a moment during
// the call.
std::uint64_t pending_of(const wire::Job& job, std::uint32_t device, std::uint32_t slot);

// The owner is dead, or another program by now: nothing of it is settled.
void forget_settled(wire::Job& job, std::uint32_t device, std::uint32_t slot, const Owner& owner);

}  // namespace vram::ledger
