#include "interpose/room.h"

#include "base/clock.h"
#include "interpose/elastic.h"
#include "interpose/job.h"

namespace vram::interpose {
namespace {

// A request waits as long as a turn of others may take (src/daemon), and is refused then.
constexpr std::uint64_t kMost_ms = 600'000;
constexpr std::uint32_t kUntilAskedAgain_ms = 10'000;
// What a pool takes at a time may be more than was asked for.
constexpr std::uint64_t kPages = 32 * kMiB;

}  // namespace

wire::RoomAnswer ask_for_room(const Device& device, std::uint64_t bytes, std::uint32_t timeout_ms) {
  const char* path = job()->header.daemon_path;
  if (path[0] == '\0') return wire::RoomAnswer::kNobody;
  return wire::ask_for_room(path, device.uuid, bytes, timeout_ms);
}

bool room_was_made(const Device& device, std::uint64_t bytes, std::uint64_t* asked_since) {
  if (!is_elastic()) return false;
  const ledger::Usage usage = device.account.usage();
  const std::uint64_t left = usage.limit > usage.used ? usage.limit - usage.used : 0;
  if (bytes > left) return false;  // the limit refused it
  const std::uint64_t now = base::now_ms();
  if (*asked_since == 0) *asked_since = now;
  while (base::now_ms() - *asked_since < kMost_ms) {
    switch (ask_for_room(device, round_up(bytes, kPages), kUntilAskedAgain_ms)) {
      case wire::RoomAnswer::kGranted:
        return true;
      case wire::RoomAnswer::kLater:
        continue;
      default:
        return false;
    }
  }
  return false;
}

}  // namespace vram::interpose
