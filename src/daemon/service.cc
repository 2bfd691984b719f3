#include "daemon/service.h"

#include <fcntl.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <cstring>

namespace vram::daemon {
namespace {

constexpr int kFirstInherited = 3;  // SD_LISTEN_FDS_START

// Absent as well when it was meant for another process.
std::optional<std::uint64_t> number(const char* name, const char* pid_name) {
  const char* text = std::getenv(name);
  const char* pid = std::getenv(pid_name);
  if (text == nullptr || (pid != nullptr && std::atoll(pid) != getpid())) return std::nullopt;
  char* end = nullptr;
  const unsigned long long value = std::strtoull(text, &end, 10);
  if (end == text || *end != '\0') return std::nullopt;
  return value;
}

}  // namespace

void notify_service(const std::string& lines) {
  const char* path = std::getenv("NOTIFY_SOCKET");
  if (path == nullptr || path[0] == '\0') return;
  sockaddr_un address{};
  const std::size_t length = std::strlen(path);
  if (length >= sizeof address.sun_path) return;
  address.sun_family = AF_UNIX;
  std::memcpy(address.sun_path, path, length);
  if (path[0] == '@') address.sun_path[0] = '\0';  // an abstract name
  const int fd = socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
  if (fd < 0) return;
  const auto size = static_cast<socklen_t>(offsetof(sockaddr_un, sun_path) + length);
  (void)sendto(fd, lines.data(), lines.size(), MSG_NOSIGNAL,
               reinterpret_cast<const sockaddr*>(&address), size);
  close(fd);
}

std::optional<std::uint64_t> watchdog_ms() {
  const auto us = number("WATCHDOG_USEC", "WATCHDOG_PID");
  if (!us || *us == 0) return std::nullopt;
  return std::max<std::uint64_t>(1, *us / 1000);
}

int inherited_socket() {
  const auto count = number("LISTEN_FDS", "LISTEN_PID");
  if (!count || *count == 0) return -1;
  unsetenv("LISTEN_FDS");
  (void)fcntl(kFirstInherited, F_SETFD, FD_CLOEXEC);
  (void)fcntl(kFirstInherited, F_SETFL, fcntl(kFirstInherited, F_GETFL) | O_NONBLOCK);
  return kFirstInherited;
}

}  // namespace vram::daemon
