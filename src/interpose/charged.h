#pragma once

// A call that takes an amount of device memory known before.

#include "interpose/measure.h"
#include "interpose/own_pools.h"

namespace vram::interpose {

// Reserves `bytes` of the account, makes the call, and notes what it made: then the reservation
// becomes a charge. `note` returns false when there is no room for the note, after giving back what
// was made; then, as when the limit or the driver refuses, nothing stays charged.
template <typename Call, typename Note>
CUresult take_charged(Device& device, const ledger::Account& account, std::uint64_t bytes,
                      wire::Part part, Call call, Note note) {
  measure_near_limit(device, bytes);
  make_room(device, bytes);
  if (!account.reserve(bytes)) return CUDA_ERROR_OUT_OF_MEMORY;
  CUresult result = call();
  if (result == CUDA_SUCCESS && !note()) result = CUDA_ERROR_OUT_OF_MEMORY;
  if (result != CUDA_SUCCESS) {
    account.roll_back(bytes);
    return result;
  }
  account.add_part(part, static_cast<std::int64_t>(bytes));
  account.commit(bytes);
  return result;
}

}  // namespace vram::interpose
