#include "wire/daemon_client.h"

#include <errno.h>
#include <poll.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <time.h>
#include <unistd.h>

#include "base/clock.h"

namespace vram::wire {
namespace {

// A daemon that lives takes a caller within milliseconds; one that is stopped must not stop others.
constexpr time_t kPatience_s = 2;
// How much later than asked for an answer may come before the daemon counts as stuck.
constexpr std::uint32_t kGrace_ms = 2000;

class KeepErrno {
 public:
  KeepErrno() : kept_(errno) {}
  ~KeepErrno() { errno = kept_; }
  KeepErrno(const KeepErrno&) = delete;
  KeepErrno& operator=(const KeepErrno&) = delete;

 private:
  int kept_;
};

bool address_of(const char* path, sockaddr_un* out) {
  const std::size_t length = strlen(path);
  if (length == 0 || length >= sizeof out->sun_path) return false;
  out->sun_family = AF_UNIX;
  memcpy(out->sun_path, path, length + 1);
  return true;
}

bool is_trusted(int fd) {
  ucred peer{};
  socklen_t size = sizeof peer;
  if (getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &peer, &size) != 0) return false;
  return peer.uid == 0 || peer.uid == geteuid();
}

DaemonError connect_to(int fd, const char* path) {
  sockaddr_un address{};
  if (!address_of(path, &address)) return DaemonError::kNobody;
  // Bounds connect() as well, where the daemon's queue is full.
  const timeval patience{kPatience_s, 0};
  (void)setsockopt(fd, SOL_SOCKET, SO_SNDTIMEO, &patience, sizeof patience);
  if (connect(fd, reinterpret_cast<const sockaddr*>(&address), sizeof address) != 0) {
    return DaemonError::kNobody;
  }
  return is_trusted(fd) ? DaemonError::kNone : DaemonError::kForeign;
}

RoomAnswer answer_of(const DaemonReply& reply) {
  switch (reply.verdict) {
    case Verdict::kGranted:
      return RoomAnswer::kGranted;
    case Verdict::kNever:
      return RoomAnswer::kNever;
    case Verdict::kVersion:
      return RoomAnswer::kNobody;
    case Verdict::kWaits:
    case Verdict::kLater:
      break;
  }
  return RoomAnswer::kLater;
}

}  // namespace

DaemonLine call_daemon(const char* path) {
  const KeepErrno keep;
  DaemonLine line;
  line.fd = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0);
  if (line.fd < 0) return line;
  line.error = connect_to(line.fd, path);
  if (line.error == DaemonError::kNone) return line;
  close(line.fd);
  line.fd = -1;
  return line;
}

DaemonError send_request(const DaemonLine& line, const DaemonRequest& request) {
  const KeepErrno keep;
  ssize_t sent = 0;
  do {
    sent = send(line.fd, &request, sizeof request, MSG_NOSIGNAL);
  } while (sent < 0 && errno == EINTR);
  return sent == static_cast<ssize_t>(sizeof request) ? DaemonError::kNone : DaemonError::kBroken;
}

DaemonError receive_reply(const DaemonLine& line, std::uint32_t timeout_ms, DaemonReply* reply) {
  const KeepErrno keep;
  const std::uint64_t deadline = base::now_ms() + timeout_ms;
  for (;;) {
    const std::uint64_t now = base::now_ms();
    const std::uint64_t left = now < deadline ? deadline - now : 0;
    pollfd waits{line.fd, POLLIN, 0};
    const int ready = poll(&waits, 1, left < 1000 ? static_cast<int>(left) : 1000);
    if (ready < 0 && errno != EINTR) return DaemonError::kBroken;
    if (ready <= 0 && left == 0) return DaemonError::kTimeout;
    if (ready <= 0) continue;
    const ssize_t got = recv(line.fd, reply, sizeof *reply, MSG_DONTWAIT | MSG_TRUNC);
    if (got < 0 && (errno == EINTR || errno == EAGAIN)) continue;
    const bool whole = got == static_cast<ssize_t>(sizeof *reply) && reply->magic == kDaemonMagic;
    if (!whole) return DaemonError::kBroken;
    reply->text[sizeof reply->text - 1] = '\0';
    reply->job[sizeof reply->job - 1] = '\0';
    reply->waiting[sizeof reply->waiting - 1] = '\0';
    if (reply->version != kDaemonVersion) reply->verdict = Verdict::kVersion;
    return DaemonError::kNone;
  }
}

void hang_up(DaemonLine* line) {
  const KeepErrno keep;
  if (line->fd >= 0) close(line->fd);
  line->fd = -1;
}

RoomAnswer ask_for_room(const char* path, DaemonAsk ask, const std::uint8_t (&uuid)[16],
                        std::uint64_t bytes, std::uint32_t timeout_ms) {
  DaemonLine line = call_daemon(path);
  if (line.error != DaemonError::kNone) return RoomAnswer::kNobody;
  DaemonRequest request = make_request(ask);
  request.bytes = bytes;
  request.timeout_ms = timeout_ms;
  memcpy(request.uuid, uuid, sizeof request.uuid);
  DaemonReply reply{};
  DaemonError error = send_request(line, request);
  if (error == DaemonError::kNone) error = receive_reply(line, timeout_ms + kGrace_ms, &reply);
  hang_up(&line);
  if (error == DaemonError::kTimeout) return RoomAnswer::kLater;
  return error == DaemonError::kNone ? answer_of(reply) : RoomAnswer::kNobody;
}

}  // namespace vram::wire
