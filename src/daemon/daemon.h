#pragma once

// The daemon: one loop, one thread. It sees (job files, cards), decides (Admissions, Room, Orders)
// and asks processes; nothing it knows is anywhere but in the job files, the cards and the requests
// that come again. Killed at any moment and started anew it goes on where it was.

#include <atomic>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "daemon/admission.h"
#include "daemon/clients.h"
#include "daemon/listener.h"
#include "daemon/log.h"
#include "daemon/orders.h"
#include "daemon/room.h"
#include "host/host.h"

namespace vram::daemon {

// What users may do is asked of the system seldom: it may be slow to answer.
class Standings {
 public:
  explicit Standings(const Policy* policy) : policy_(policy) {}
  Standing of(std::uint32_t uid);
  const std::string& name_of(std::uint32_t uid);

 private:
  struct Known {
    User user;
    std::uint64_t at_ms = 0;
  };
  const Known& look_up(std::uint32_t uid);

  const Policy* policy_;
  std::map<std::uint32_t, Known> known_;
};

// Job files first, then the cards; see Sight. `folders`: empty: those of the system.
Sight see(const std::vector<host::StateFolder>& folders, const probe::Nvml& nvml,
          const std::vector<probe::Card>& known);

class Daemon {
 public:
  Daemon(Policy policy, host::Host host, std::vector<host::StateFolder> folders, Listener listener,
         Log log);

  // Until SIGTERM or SIGINT.
  void run();

 private:
  struct Admit {
    std::uint64_t client = 0;
    std::uint32_t uid = 0;
    std::string job;  // id
    bool waits = false;
    std::uint64_t since_ns = 0, told_ns = 0;
    std::string told;
  };

  void refresh();
  void look();
  void handle(const Received& received);
  void handle_room(const Received& received);
  void handle_stay(const Received& received);
  void handle_status(const Received& received);
  void govern();
  void lower_others(const std::string& path, const std::string& uuid);
  void admit_waiting();
  bool try_admit(Admit* admit, std::vector<std::string>* blocked);
  void finish_admit(const Admit& admit, const host::JobInfo& job, const std::vector<Terms>& terms);
  void refuse(const Admit& admit, const std::string& text);
  void carry_out(const MoveOrder& order);
  void tell(const std::vector<OrderResult>& results);
  void forget(std::uint64_t client);
  int pause_ms() const;
  void keep_alive();

  Policy policy_;
  host::Host host_;
  std::vector<host::StateFolder> folders_;
  Listener listener_;
  Log log_;
  Standings standings_;
  Admissions admissions_;
  Room room_;
  Orders orders_;
  Clients clients_;
  std::vector<Admit> admits_;
  std::map<std::string, std::uint64_t> refused_told_ns_;  // path of the job file ->
  Sight sight_;
  std::string status_;
  std::uint64_t watchdog_ms_ = 0, kept_alive_ms_ = 0;
};

}  // namespace vram::daemon
