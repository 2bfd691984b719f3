#include "daemon/listener.h"

#include <fcntl.h>
#include <sys/file.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>

#include "daemon/service.h"

namespace vram::daemon {
namespace {

using host::Failure;
using host::Result;

// Callers beyond it wait in connect().
constexpr int kBacklog = 64;

std::string folder_of(const std::string& path) {
  const std::size_t slash = path.rfind('/');
  return slash == std::string::npos ? "." : slash == 0 ? "/" : path.substr(0, slash);
}

Failure failed(const std::string& what, const std::string& next) {
  return {what + ": " + std::strerror(errno) + "; " + next};
}

// The hold on the folder; refuses one that others could put sockets into.
Result<int> hold_folder(const std::string& folder, Audience audience) {
  if (mkdir(folder.c_str(), audience == Audience::kOwner ? 0700 : 0755) != 0 && errno != EEXIST) {
    return failed("socket folder " + folder, "make it, or choose another with --socket");
  }
  const int fd = open(folder.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC | O_NOFOLLOW);
  if (fd < 0) return failed("socket folder " + folder, "choose another with --socket");
  struct stat st {};
  const bool own = fstat(fd, &st) == 0 && (st.st_uid == geteuid() || st.st_uid == 0);
  if (!own || (st.st_mode & (S_IWGRP | S_IWOTH)) != 0) {
    close(fd);
    return Failure{"socket folder " + folder + " belongs to another user or is writable by " +
                   "others; choose one of your own with --socket"};
  }
  if (flock(fd, LOCK_EX | LOCK_NB) != 0) {
    close(fd);
    return Failure{"another vramd listens in " + folder + "; end that one first"};
  }
  return fd;
}

Result<int> bind_socket(const std::string& path, Audience audience) {
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  std::memcpy(address.sun_path, path.c_str(), path.size());
  const int fd = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
  if (fd < 0) return failed("socket " + path, "see 'ulimit -n'");
  // What a daemon that was killed left; nobody listens there, for the folder is ours.
  struct stat st {};
  if (lstat(path.c_str(), &st) == 0 && S_ISSOCK(st.st_mode)) (void)unlink(path.c_str());
  const mode_t mask = umask(audience == Audience::kOwner ? 0177 : 0111);
  const bool bound = bind(fd, reinterpret_cast<const sockaddr*>(&address), sizeof address) == 0;
  const int error = errno;
  umask(mask);
  errno = error;
  if (bound && listen(fd, kBacklog) == 0) return fd;
  const Failure failure = failed("socket " + path, "choose another with --socket");
  close(fd);
  return failure;
}

}  // namespace

Listener::~Listener() {
  if (fd_ >= 0) close(fd_);
  if (hold_ >= 0) close(hold_);
}

Result<Listener> listen_at(const std::string& path, Audience audience) {
  if (const int inherited = inherited_socket(); inherited >= 0) {
    int type = 0;
    socklen_t size = sizeof type;
    const bool is_one = getsockopt(inherited, SOL_SOCKET, SO_TYPE, &type, &size) == 0;
    if (!is_one || type != SOCK_SEQPACKET) {
      return Failure{
          "LISTEN_FDS: descriptor 3 is no sequential-packet socket; correct the unit "
          "(ListenSequentialPacket=)"};
    }
    return Listener(inherited, -1);
  }
  if (path.empty() || path.size() >= sizeof(sockaddr_un::sun_path)) {
    return Failure{"--socket: '" + path + "' is longer than a socket's path may be (" +
                   std::to_string(sizeof(sockaddr_un::sun_path) - 1) + "); choose a shorter one"};
  }
  const Result<int> hold = hold_folder(folder_of(path), audience);
  if (!hold) return hold.error();
  const Result<int> fd = bind_socket(path, audience);
  if (!fd) {
    close(*hold);
    return fd.error();
  }
  return Listener(*fd, *hold);
}

}  // namespace vram::daemon
