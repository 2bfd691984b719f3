#pragma once

// The daemon's socket: made, or taken over from who started the daemon.

#include <string>

#include "host/failure.h"

namespace vram::daemon {

// Owns the socket and the hold on its folder; removes neither file: whoever comes next takes them
// over, and whoever asks meanwhile finds that nobody listens.
class Listener {
 public:
  Listener(int fd, int hold) : fd_(fd), hold_(hold) {}
  Listener(Listener&& other) noexcept : fd_(other.fd_), hold_(other.hold_) {
    other.fd_ = other.hold_ = -1;
  }
  Listener& operator=(Listener&&) = delete;
  ~Listener();

  int fd() const { return fd_; }

 private:
  int fd_;
  int hold_;
};

enum class Audience {
  kOwner,     // the daemon's own user: folder 0700, socket 0600
  kEverybody  // folder 0755, socket 0666: who asks is known from the socket
};

// At most one daemon listens in a folder; the hold on it goes with the process.
host::Result<Listener> listen_at(const std::string& path, Audience audience);

}  // namespace vram::daemon
