#pragma once

// The only places where the daemon writes into a job's file: what a process is asked to do, and
// that a job was admitted.
//
// A file belongs to its user, who may cut it short at any moment; touching a page that is gone
// raises SIGBUS. Here that ends the writing and not the daemon: the process is treated as gone.
//
// Threads: one.

#include <vector>

#include "daemon/admission.h"
#include "daemon/sight.h"
#include "ledger/parking.h"

namespace vram::daemon {

// Once, before anything is written.
void survive_cut_files();

// False: the file is gone, changed or cut short, or somebody else sits in the slot.
[[nodiscard]] bool ask_to_move(const host::JobInfo& job, const host::JobMember& member,
                               ledger::Move move, const ledger::Amount& amount);
// Whether the job waits to be admitted, for those who look.
[[nodiscard]] bool write_waiting(const host::JobInfo& job);
[[nodiscard]] bool write_admitted(const host::JobInfo& job, const std::vector<Terms>& terms);
// What the job may hold of a device that nobody can take back. Who reads the file afterwards sees
// everything that was taken under an earlier limit.
[[nodiscard]] bool write_stay_limit(const host::JobInfo& job, const host::JobDevice& device,
                                    std::uint64_t bytes);

}  // namespace vram::daemon
