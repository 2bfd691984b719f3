#pragma once

// Credits: what processes are charged for ahead of use (wire::Part::kCredits).

#include <cstdint>

#include "wire/job_layout.h"

namespace vram::ledger {

// What of `sum` bytes charged on a device was in use, as far as the limit can tell. Memory that a
// driver takes beside calls is measured and charged whether it fits or not, while credits that
// nobody uses still stand in the sum. Above the limit these come off, and no more than these: what
// then is left above it is really above it.
//
// Threads: any. Exact while nobody changes credits.
std::uint64_t in_use(const wire::Job& job, std::uint32_t device, std::uint64_t sum);

}  // namespace vram::ledger
