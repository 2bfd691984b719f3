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

// Whether `account` may take `bytes` more; where that is over what the job may hold that nobody can
// move, the daemon is asked. Not from inside the gate.
[[nodiscard]] bool may_stay(const Device& device, const ledger::Account& account,
                            std::uint64_t bytes);

// After a measurement: what was found is over the limit, or more than may stay. Not from inside the
// gate.
[[nodiscard]] bool is_too_much(const Device& device);

// Of one attempt and its repetitions.
struct RoomAsked {
  std::uint64_t until_ms = 0;  // 0: not yet
  unsigned granted = 0;        // times
  unsigned grown = 0;          // times that what stays was found to be more
  static constexpr unsigned kMostGrown = 8;
};
// After an attempt to take `bytes` was refused: true when it should be made again.
bool room_was_made(const Device& device, std::uint64_t bytes, RoomAsked* asked);

// Makes the attempt inside the gate, again as long as room is made for it. `bytes`: what it takes
// of the card, at most, as far as that is known. Not from inside the gate.
template <typename Attempt>
CUresult attempt_with_room(const Device& device, const ledger::Account& account,
                           std::uint64_t bytes, Attempt attempt) {
  RoomAsked asked;
  for (;;) {
    if (!may_stay(device, account, bytes)) return CUDA_ERROR_OUT_OF_MEMORY;
    CUresult result = CUDA_SUCCESS;
    {
      const residency::Through through;
      result = attempt();
    }
    if (result != CUDA_ERROR_OUT_OF_MEMORY) return result;
    // A measurement in between found more of what stays: that is asked for anew.
    if (!account.may_stay(bytes) && ++asked.grown <= RoomAsked::kMostGrown) continue;
    if (!room_was_made(device, bytes, &asked)) return result;
  }
}

// Of memory that moves.
template <typename Attempt>
CUresult with_room(const Device& device, std::uint64_t bytes, Attempt attempt) {
  return attempt_with_room(device, device.account.moving(), bytes, attempt);
}

// Of memory that nobody can move.
template <typename Attempt>
CUresult with_room_to_stay(const Device& device, std::uint64_t bytes, Attempt attempt) {
  return attempt_with_room(device, device.account, bytes, attempt);
}

}  // namespace vram::interpose
