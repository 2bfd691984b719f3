#pragma once

// Moves this process's elastic memory to the host and back: when somebody asks for it
// (ledger/parking.h), when the program has idled for as long as its job says, and back when a call
// of the program needs it.
//
// Parking: what own pools have idle goes back, work on the card comes to its end, the gate shuts,
// as much memory moves as was asked for, its charge ends. A step that fails opens the gate again,
// and the reason is kept. The gate stays shut while anything is on the host; more may be asked for
// then, and when that fails, what was there stays. Restoring: the daemon is asked for room where
// there is one, the charge of what is on the host comes back, the memory moves, the gate opens.
// Room that is not there yet is asked for again.
//
// Threads: tend_parking() and let_pass_unless_away() by whoever holds the caretaker's mutex; the
// others by any.

#include "interpose/process.h"
#include "wire/job_layout.h"

namespace vram::interpose {

wire::Parking& own_parking();

// When elastic memory has been joined.
void open_parking();

// One round of everything above. True: memory is wanted and cannot be had yet; look again soon.
[[nodiscard]] bool tend_parking();
// Memory is on the host, or on its way.
bool is_away();
// Whether a round would find something to do.
bool has_to_move();
// A call waits for the memory.
void want_memory();
// The gate opens, unless memory is on the host.
void let_pass_unless_away();

}  // namespace vram::interpose
