#include "interpose/room.h"

#include <time.h>

#include <atomic>

#include "base/clock.h"
#include "interpose/elastic.h"
#include "interpose/job.h"
#include "interpose/measure.h"

namespace vram::interpose {
namespace {

// A request waits as long as a turn of others may take (src/daemon), and is refused then.
constexpr std::uint64_t kMost_ms = 600'000;
constexpr std::uint32_t kUntilAskedAgain_ms = 10'000;
// What a pool takes at a time may be more than was asked for.
constexpr std::uint64_t kPages = 32 * kMiB;
// Who finds no memory that often in room that the card had is refused by something else.
constexpr unsigned kMostGrants = 8;
// What a measurement may find beside what a call was expected to take.
constexpr std::uint64_t kMargin = 8 * kMiB;
// A daemon that was killed or exchanged is back by then, or does not come back.
constexpr std::uint64_t kUntilDaemonIsBack_ms = 10'000;
constexpr timespec kUntilLookedAgain{0, 100'000'000};

std::atomic<std::uint64_t> nobody_since_ms{0};  // 0: the daemon answered when it was asked last

// Whether a daemon that does not answer is worth waiting for: it knew this job, and has not been
// away for long.
bool may_come_back() {
  if (job()->header.admission.load(std::memory_order_relaxed) != wire::Admission::kAdmitted) {
    return false;
  }
  const std::uint64_t now = base::now_ms();
  std::uint64_t since = 0;
  if (nobody_since_ms.compare_exchange_strong(since, now)) since = now;
  return now - since < kUntilDaemonIsBack_ms;
}

wire::RoomAnswer ask(wire::DaemonAsk what, const Device& device, std::uint64_t bytes,
                     std::uint32_t timeout_ms) {
  const char* path = job()->header.daemon_path;
  if (path[0] == '\0') return wire::RoomAnswer::kNobody;
  return wire::ask_for_room(path, what, device.uuid, bytes, timeout_ms);
}

// kNobody: there is no daemon any more. kLater: `until_ms` has come.
wire::RoomAnswer ask_patiently(wire::DaemonAsk what, const Device& device, std::uint64_t bytes,
                               std::uint64_t until_ms) {
  while (base::now_ms() < until_ms) {
    const wire::RoomAnswer answer = ask(what, device, bytes, kUntilAskedAgain_ms);
    if (answer == wire::RoomAnswer::kNobody) {
      if (!may_come_back()) return answer;
      nanosleep(&kUntilLookedAgain, nullptr);
      continue;
    }
    nobody_since_ms.store(0, std::memory_order_relaxed);
    if (answer != wire::RoomAnswer::kLater) return answer;
  }
  return wire::RoomAnswer::kLater;
}

}  // namespace

wire::RoomAnswer ask_for_room(const Device& device, std::uint64_t bytes, std::uint32_t timeout_ms) {
  return ask(wire::DaemonAsk::kRoom, device, bytes, timeout_ms);
}

bool may_stay(const Device& device, const ledger::Account& account, std::uint64_t bytes) {
  if (!is_elastic() || account.may_stay(bytes + kMargin)) return true;
  const wire::RoomAnswer answer =
      ask_patiently(wire::DaemonAsk::kStay, device, bytes, base::now_ms() + kMost_ms);
  // Nobody keeps promises any more.
  if (answer == wire::RoomAnswer::kNobody) account.record().stay_limit.store(0);
  return answer == wire::RoomAnswer::kGranted || account.may_stay(bytes);
}

bool is_too_much(const Device& device) {
  return over_limit(device) || !may_stay(device, device.account, 0);
}

bool room_was_made(const Device& device, std::uint64_t bytes, RoomAsked* asked) {
  if (!is_elastic() || asked->granted == kMostGrants) return false;
  if (bytes > device.account.moving().left()) return false;  // the limit refused it
  if (asked->until_ms == 0) asked->until_ms = base::now_ms() + kMost_ms;
  const wire::RoomAnswer answer =
      ask_patiently(wire::DaemonAsk::kRoom, device, round_up(bytes, kPages), asked->until_ms);
  if (answer != wire::RoomAnswer::kGranted) return false;
  ++asked->granted;
  return true;
}

}  // namespace vram::interpose
