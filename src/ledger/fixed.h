#pragma once

// What of an elastic job's memory nobody can take back: contexts, arrays and all else that the
// driver keeps, what was measured beside the calls, and all that a pinned process holds, one with
// memory that others can reach or that only the driver moves. The rest is charged through
// Account::moving().
//
// A job may hold so much of it, DeviceAccount::stay_limit, which the daemon sets: beside what
// others may hold, every reserve fits on the card. Whoever takes such memory charges it first and
// looks then, and so does a daemon that lowers a limit: of two who meet, at least one sees both.
//
// Threads: any, in any number of processes. Bytes; exact while nobody takes or gives back.

#include <cstdint>

#include "ledger/slots.h"
#include "wire/job_layout.h"

namespace vram::ledger {

// Of one process on one device.
std::uint64_t fixed_bytes(const wire::Job& job, std::uint32_t device, std::uint32_t slot);
// Of all processes of the job.
std::uint64_t fixed_bytes(const wire::Job& job, std::uint32_t device);

// Whether `more` bytes beside what it holds are within the job's stay limit.
bool may_stay(const wire::Job& job, std::uint32_t device, std::uint64_t more);

}  // namespace vram::ledger
