#pragma once

// Whether this process's elastic memory can be moved, as its job's file tells everybody: not while
// others can reach any of it, or while the process holds managed memory. Then all that it holds
// counts as what stays (ledger/fixed.h), and it may become so only as far as the job may hold that.
//
// Threads: any.

#include "interpose/elastic.h"
#include "interpose/room.h"

namespace vram::interpose {

bool holds_managed_memory();

// To be called after everything that may have pinned or freed the process's memory.
void publish_pins();

// Whether all that the process holds may stay. Not from inside the gate.
[[nodiscard]] bool may_pin();

// Makes a call, inside the gate, after which the process's memory cannot be moved. Not from inside.
template <typename Call>
CUresult pinning(Call call) {
  if (!may_pin()) return CUDA_ERROR_OUT_OF_MEMORY;
  const residency::Through through;
  const CUresult result = call();
  publish_pins();
  return result;
}

}  // namespace vram::interpose
