#pragma once

// `vram park` and `vram unpark` of jobs that the caller cannot write to itself: whether the policy
// allows it, and what came of it.

#include <string>
#include <vector>

#include "daemon/sight.h"
#include "ledger/parking.h"
#include "wire/daemon_messages.h"

namespace vram::daemon {

struct OrderResult {
  std::uint64_t client = 0;
  wire::DaemonReply reply{};
  std::string line;  // for the log
};

class Orders {
 public:
  explicit Orders(StandingOf standing_of) : standing_of_(std::move(standing_of)) {}

  struct Caller {
    std::uint64_t client = 0;
    std::uint32_t uid = 0;
    std::string name;
  };
  // Asks every process of the job. Absent: it is waited for; else the answer, a refusal.
  std::vector<OrderResult> add(const Sight& sight, const Caller& caller,
                               const wire::DaemonRequest& request);
  void drop(std::uint64_t client);
  std::vector<OrderResult> look(const Sight& sight);
  bool busy() const { return !open_.empty(); }

 private:
  struct One {
    ProcessKey who;
    std::uint64_t bytes = 0;
    std::uint32_t times_before = 0;
  };
  struct Order {
    Caller caller;
    wire::DaemonAsk ask;
    std::string job;  // "k3fa (alice)"
    std::uint64_t deadline_ns = 0;
    std::vector<One> open;
    std::uint32_t moved = 0, failed = 0;
    std::uint64_t bytes = 0;
  };
  const host::JobInfo* allowed_job(const Sight& sight, const Caller& caller,
                                   const std::string& id) const;
  static void judge(const Sight& sight, Order* order);

  StandingOf standing_of_;
  std::vector<Order> open_;
};

}  // namespace vram::daemon
