#pragma once

// Who is connected, and what each asks. Nobody can harm the daemon or the others: connections are
// bounded, in all and by user; each has one request open at a time; who sends anything else, or
// does not read its answers, is disconnected.
//
// Threads: one.

#include <poll.h>
#include <sys/socket.h>

#include <cstdint>
#include <string>
#include <vector>

#include "wire/daemon_messages.h"

namespace vram::daemon {

struct Client {
  int fd = -1;
  std::uint64_t number = 0;
  ucred peer{};
  bool waits = false;  // its request is open
};

struct Received {
  std::uint64_t client = 0;
  ucred peer{};
  wire::DaemonRequest request{};
};

// What a round brought.
struct Round {
  std::vector<Received> requests;
  std::vector<std::uint64_t> gone;  // clients
  std::vector<std::string> lines;   // for the log
};

class Clients {
 public:
  explicit Clients(int listener) : listener_(listener) {}
  ~Clients();
  Clients(const Clients&) = delete;
  Clients& operator=(const Clients&) = delete;

  // What poll() is to wait for; round() takes it back with what poll() found.
  void add_to(std::vector<pollfd>* list) const;
  Round round(const std::vector<pollfd>& list);

  // Sends a packet; with the last one of an answer the client may ask again.
  enum class Part : std::uint8_t { kMore, kLast };
  void answer(std::uint64_t client, const wire::DaemonReply& reply, Part part);

 private:
  void take_in(Round* round);
  bool has_place(const ucred& peer) const;
  void hear(Client* client, Round* round);
  static void disconnect(Client* client);

  int listener_;
  std::uint64_t last_number_ = 0;
  std::vector<Client> clients_;
};

}  // namespace vram::daemon
