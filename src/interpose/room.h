#pragma once

// Room on a card that others have: where memory is elastic and the card, not the limit, is short,
// the daemon may take it from whoever does not use it.

#include "interpose/process.h"
#include "residency/gate.h"
#include "wire/daemon_client.h"

namespace vram::interpose {

// Asks the daemon of this process's job. Not from inside the gate: the memory that this process
// holds may be what somebody else waits for.
wire::RoomAnswer ask_for_room(const Device& device, std::uint64_t bytes, std::uint32_t timeout_ms);

// Of one attempt and its repetitions.
struct RoomAsked {
  std::uint64_t since_ms = 0;  // 0: not yet
  unsigned granted = 0;        // times
};
// After an attempt to take `bytes` was refused: true when it should be made again.
bool room_was_made(const Device& device, std::uint64_t bytes, RoomAsked* asked);

// Makes the attempt inside the gate, again as long as room is made for it. `bytes`: what it takes
// of the card, at most, as far as that is known. Not from inside the gate.
template <typename Attempt>
CUresult with_room(const Device& device, std::uint64_t bytes, Attempt attempt) {
  RoomAsked asked;
  for (;;) {
    CUresult result = CUDA_SUCCESS;
    {
      const residency::Through through;
      result = attempt();
    }
    if (result != CUDA_ERROR_OUT_OF_MEMORY || !room_was_made(device, bytes, &asked)) {
      return result;
    }
  }
}

}  // namespace vram::interpose
