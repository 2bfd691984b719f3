#pragma once

// Parking in words: for people, and the names in machine-readable output.

#include <cstdint>
#include <optional>
#include <string>

#include "ledger/parking.h"
#include "wire/job_layout.h"

namespace vram::cli {

// "on the card", "parked 40GiB", ...; "-" for a process that is not elastic.
std::string describe(wire::Place place, std::uint64_t bytes);

// Absent for kNone.
std::optional<std::string> name_of(wire::Place place);
std::optional<std::string> name_of(wire::Refusal refusal);

// Why a process was not moved, what that means for it, and the next step; one sentence. `process`:
// "process 1234 (python3)"; `bytes`: what was to be moved, 0: not known.
std::string explain(wire::Refusal refusal, ledger::Move move, wire::Place place,
                    const std::string& process, std::uint64_t bytes);

}  // namespace vram::cli
