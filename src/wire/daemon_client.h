#pragma once

// What a governed process asks of the daemon, over its socket: one message, one answer.
//
// The answer counts only from a daemon of root or of the caller's own user. Nothing here needs
// libstdc++ or allocates; failures are values. Not for signal handlers.
//
// Threads: any; each call has a connection of its own.

#include <cstdint>

namespace vram::wire {

enum class RoomAnswer : std::uint8_t {
  kNobody,   // no daemon answers at this path; ask again later
  kGranted,  // the card has the room now
  kLater,    // it could not be had in time; ask again
  kNever,    // no card of this size, or the policy does not allow it
};

// Asks for `bytes` of free memory on a card for the calling process, which may take as long as the
// others need to give it back, at most `timeout_ms`. `path` is a job's daemon_path.
[[nodiscard]] RoomAnswer ask_for_room(const char* path, const std::uint8_t (&uuid)[16],
                                      std::uint64_t bytes, std::uint32_t timeout_ms);

}  // namespace vram::wire
