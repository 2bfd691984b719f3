#include "cli/daemon_status.h"

#include "host/daemon_socket.h"
#include "host/job_list.h"
#include "wire/daemon_client.h"

namespace vram::cli {
namespace {

// Longer than any answer takes; shorter than a person waits for a table.
constexpr std::uint32_t kAnswer_ms = 2000;

std::optional<std::vector<CardStatus>> read(const wire::DaemonLine& line) {
  if (wire::send_request(line, wire::make_request(wire::DaemonAsk::kStatus)) !=
      wire::DaemonError::kNone) {
    return std::nullopt;
  }
  std::vector<CardStatus> cards;
  wire::DaemonReply reply{};
  do {
    const wire::DaemonError error = wire::receive_reply(line, kAnswer_ms, &reply);
    if (error != wire::DaemonError::kNone || reply.verdict != wire::Verdict::kGranted) {
      return std::nullopt;
    }
    cards.push_back({host::format_uuid(reply.uuid), reply.reserves, reply.bytes, reply.job,
                     reply.waiting, reply.left_ms});
  } while (reply.more != 0);
  return cards;
}

}  // namespace

std::optional<std::vector<CardStatus>> ask_daemon_status() {
  const std::string path = host::daemon_socket();
  if (path.empty()) return std::nullopt;
  wire::DaemonLine line = wire::call_daemon(path.c_str());
  if (line.error != wire::DaemonError::kNone) return std::nullopt;
  auto cards = read(line);
  wire::hang_up(&line);
  return cards;
}

}  // namespace vram::cli
