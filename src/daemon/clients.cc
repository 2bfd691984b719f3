#include "daemon/clients.h"

#include <unistd.h>

#include <algorithm>
#include <cerrno>

namespace vram::daemon {
namespace {

// A host runs few hundred processes that use a card, and each asks seldom.
constexpr std::size_t kMostClients = 512;
// One user may not keep others out.
constexpr std::size_t kMostOfOneUser = 128;
// Accepted in one round, so that those who are connected get their turn in between.
constexpr int kAcceptedARound = 16;

}  // namespace

Clients::~Clients() {
  for (Client& client : clients_) disconnect(&client);
}

void Clients::disconnect(Client* client) {
  if (client->fd >= 0) close(client->fd);
  client->fd = -1;
}

void Clients::add_to(std::vector<pollfd>* list) const {
  list->push_back({listener_, POLLIN, 0});
  for (const Client& client : clients_) list->push_back({client.fd, POLLIN, 0});
}

Round Clients::round(const std::vector<pollfd>& list) {
  Round round;
  for (const pollfd& ready : list) {
    if (ready.revents == 0) continue;
    if (ready.fd == listener_) {
      take_in(&round);
      continue;
    }
    for (Client& client : clients_) {
      if (client.fd == ready.fd) hear(&client, &round);
    }
  }
  for (const Client& client : clients_) {
    if (client.fd < 0) round.gone.push_back(client.number);
  }
  std::erase_if(clients_, [](const Client& client) { return client.fd < 0; });
  return round;
}

bool Clients::has_place(const ucred& peer) const {
  const auto same = std::count_if(clients_.begin(), clients_.end(), [&](const Client& client) {
    return client.fd >= 0 && client.peer.uid == peer.uid;
  });
  return clients_.size() < kMostClients && static_cast<std::size_t>(same) < kMostOfOneUser;
}

void Clients::take_in(Round* round) {
  for (int i = 0; i < kAcceptedARound; ++i) {
    Client client;
    client.fd = accept4(listener_, nullptr, nullptr, SOCK_CLOEXEC | SOCK_NONBLOCK);
    if (client.fd < 0) return;
    socklen_t size = sizeof client.peer;
    const bool known = getsockopt(client.fd, SOL_SOCKET, SO_PEERCRED, &client.peer, &size) == 0;
    if (!known || !has_place(client.peer)) {
      round->lines.push_back("disconnected user " + std::to_string(client.peer.uid) +
                             ": too many connections");
      disconnect(&client);
      continue;
    }
    client.number = ++last_number_;
    clients_.push_back(client);
  }
}

void Clients::hear(Client* client, Round* round) {
  if (client->fd < 0) return;
  unsigned char packet[sizeof(wire::DaemonRequest) + 1];
  const ssize_t got = recv(client->fd, packet, sizeof packet, MSG_DONTWAIT);
  if (got < 0 && (errno == EAGAIN || errno == EINTR)) return;
  if (got <= 0) {
    disconnect(client);
    return;
  }
  Received received{client->number, client->peer, {}};
  const wire::RequestFault fault =
      wire::read_request(packet, static_cast<std::size_t>(got), &received.request);
  if (fault == wire::RequestFault::kVersion) {
    const auto reply = wire::make_reply(wire::DaemonAsk{0}, wire::Verdict::kVersion);
    (void)send(client->fd, &reply, sizeof reply, MSG_DONTWAIT | MSG_NOSIGNAL);
  }
  if (fault != wire::RequestFault::kNone || client->waits) {
    const std::string why = client->waits ? "a request before the last was answered"
                                          : std::string(wire::describe(fault));
    round->lines.push_back("disconnected process " + std::to_string(client->peer.pid) +
                           " of user " + std::to_string(client->peer.uid) + ": " + why);
    disconnect(client);
    return;
  }
  client->waits = true;
  round->requests.push_back(received);
}

void Clients::answer(std::uint64_t number, const wire::DaemonReply& reply, Part part) {
  for (Client& client : clients_) {
    if (client.number != number || client.fd < 0) continue;
    const ssize_t sent = send(client.fd, &reply, sizeof reply, MSG_DONTWAIT | MSG_NOSIGNAL);
    // It does not read what it asked for; the next round tells that it is gone.
    if (sent != static_cast<ssize_t>(sizeof reply)) disconnect(&client);
    if (part == Part::kLast) client.waits = false;
  }
}

}  // namespace vram::daemon
