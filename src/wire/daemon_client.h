#pragma once

// What a governed process, or a command, asks of the daemon, over its socket.
//
// The answer counts only from a daemon of root or of the caller's own user. Nothing here needs
// libstdc++ or allocates; failures are values; errno is kept. Not for signal handlers.
//
// Threads: any; each call has a connection of its own.

#include <cstdint>

#include "wire/daemon_messages.h"

namespace vram::wire {

enum class RoomAnswer : std::uint8_t {
  kNobody,   // no daemon answers at this path; ask again later
  kGranted,  // the card has the room now
  kLater,    // it could not be had in time; ask again
  kNever,    // no card of this size, or the policy does not allow it
};

// Asks for `bytes` on a card for the calling process. `path` is a job's daemon_path.
// kRoom: of free memory, which may take as long as the others need to give it back, at most
// `timeout_ms`. kStay: beside what the job holds that nobody can take back.
[[nodiscard]] RoomAnswer ask_for_room(const char* path, DaemonAsk ask,
                                      const std::uint8_t (&uuid)[16], std::uint64_t bytes,
                                      std::uint32_t timeout_ms);

// The system's daemon, which serves every user.
inline constexpr const char* kSystemSocket = "/run/vram/vramd.sock";
// What the socket of a user's own is called, in its state folder.
inline constexpr const char* kSocketName = "vramd.sock";

enum class DaemonError : std::uint8_t {
  kNone,
  kNobody,   // no daemon listens at the path
  kForeign,  // it is another user's
  kBroken,   // the connection ended, or what came is no answer
  kTimeout,
};

// A connection to the daemon. Closed by whoever opened it.
struct DaemonLine {
  int fd = -1;
  DaemonError error = DaemonError::kNobody;
};
[[nodiscard]] DaemonLine call_daemon(const char* path);
[[nodiscard]] DaemonError send_request(const DaemonLine& line, const DaemonRequest& request);
// Waits for the next packet of an answer, at most so long. kTimeout leaves the line as it is.
[[nodiscard]] DaemonError receive_reply(const DaemonLine& line, std::uint32_t timeout_ms,
                                        DaemonReply* reply);
void hang_up(DaemonLine* line);

}  // namespace vram::wire
