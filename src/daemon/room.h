#pragma once

// Room on a card for a process that asks: who gives, and when the asker may take it.
//
// A request is granted when the card shows as free what it asks for, beside what was promised to
// others who have not taken it yet: no byte is promised twice. Until then memory is moved to the
// host, as little as will do: of as few processes as have enough, and of those what is missing and
// a little more. First what idles, of lower priority first, and then of who is parked in part and
// of longest idleness; for a process within its job's reserve also what jobs hold above theirs;
// and, in turns, what is at work. Who was let in keeps its turn for a quantum, so that nothing is
// moved back and forth faster than it is used. Who is parked in part gives what it still has only
// to those whose requests come before its own.
//
// Nothing here does anything: look() says what is to be done. Everything is rebuilt from what is
// seen and from requests that come again, except promises, which are seconds old at most.

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "daemon/admission.h"
#include "daemon/sight.h"
#include "ledger/parking.h"

namespace vram::daemon {

struct RoomRequest {
  std::uint64_t number = 0;  // of the caller's; 0: nobody waits for an answer
  ProcessKey who;
  std::string uuid;
  std::uint64_t bytes = 0;
  std::uint64_t since_ns = 0, deadline_ns = 0;
};

struct RoomDecision {
  std::uint64_t number = 0;
  wire::Verdict verdict = wire::Verdict::kLater;  // kGranted, kLater or kNever
  std::string text;
};

// A process that is to be asked.
struct MoveOrder {
  ProcessKey who;
  ledger::Move move = ledger::Move::kToHost;
  ledger::Amount amount;  // to the host
  std::string line;       // for the log, once it is done
};

struct Turn {
  std::string uuid;
  std::string holder, waiting;  // ids of jobs
  std::uint64_t ends_ns = 0;
};

struct RoomPlan {
  std::vector<RoomDecision> decisions;
  std::vector<MoveOrder> moves;
  std::vector<std::string> lines;  // for the log
};

class Room {
 public:
  Room(const Policy* policy, const Admissions* admissions, StandingOf standing_of)
      : policy_(policy), admissions_(admissions), standing_of_(std::move(standing_of)) {}

  // The reason why it can never be granted; empty: it is taken.
  std::string add(const Sight& sight, const RoomRequest& request);
  void drop(std::uint64_t number);

  RoomPlan look(const Sight& sight);

  // Something is under way that wants to be looked at soon.
  bool busy() const { return !requests_.empty() || !asked_.empty(); }
  const std::vector<Turn>& turns() const { return turns_; }
  std::uint64_t promised_on(const Sight& sight, const std::string& uuid) const;

 private:
  struct Promise {
    ProcessKey who;
    std::string uuid;
    std::uint64_t bytes = 0;
    std::uint64_t settled_before = 0;  // what it held when it was promised
    std::uint64_t at_ns = 0;
  };
  struct Asked {
    std::uint64_t at_ns = 0;
    ledger::Move move = ledger::Move::kToHost;
    ledger::Amount amount;
    std::uint32_t times_before = 0;  // that it was parked
    std::string what;                // "job k3fa (alice)"
  };
  struct Wait {
    std::uint64_t since_ns = 0, seen_ns = 0;
  };
  struct Giver {
    Found found;
    std::uint64_t bytes = 0;  // at most
    std::int64_t priority = 0;
    std::uint64_t age = 0;      // order among equals: the smaller the earlier
    std::uint64_t free_ns = 0;  // its turn ends then; 0: it has none
    bool idle = false;
  };
  struct Asker {
    const RoomRequest* request = nullptr;
    Found found;
    Standing standing;
    bool within_reserve = false;
    std::uint64_t since_ns = 0;
  };
  // What one card has to give in this look.
  struct Purse {
    std::int64_t free = 0;    // unpromised, without what earlier askers wait for
    std::int64_t coming = 0;  // being moved to the host at the moment
  };

  void forget(const Sight& sight);
  void judge_asked(const Sight& sight, RoomPlan* plan);
  void add_waiting(const Sight& sight);
  std::vector<Asker> askers(const Sight& sight);
  void serve(const Sight& sight, const Asker& asker, Purse* purse, RoomPlan* plan);
  void grant(const Sight& sight, const Asker& asker, Purse* purse, RoomPlan* plan);
  void refuse_if_hopeless(const Sight& sight, const Asker& asker, RoomPlan* plan) const;
  std::vector<Giver> givers(const Sight& sight, const Asker& asker) const;
  // What others could give if all of them did.
  std::uint64_t most_from_others(const Sight& sight, const Asker& asker) const;
  bool may_give(const Sight& sight, const Asker& asker, const Found& giver) const;
  static bool comes_before(const Asker& a, const Asker& b);
  bool waits_before(const Sight& sight, const Found& giver, const Asker& asker) const;
  std::uint64_t turn_end(const Asker& asker, const Found& holder) const;
  void take_from(const Sight& sight, const Asker& asker, const std::vector<Giver>& chosen,
                 std::int64_t missing, Purse* purse, RoomPlan* plan);
  void park_idle(const Sight& sight, RoomPlan* plan);
  void order(const Sight& sight, const Found& found, ledger::Move move,
             const ledger::Amount& amount, const std::string& line, RoomPlan* plan);
  std::uint64_t coming_from(const Found& found, const Asked& asked, const std::string& uuid) const;
  std::uint64_t host_memory_left(const Sight& sight) const;
  std::uint64_t remaining(const Sight& sight, const Promise& promise) const;
  bool is_within_reserve(const Sight& sight, const Found& asker, const RoomRequest& request) const;

  const Policy* policy_;
  const Admissions* admissions_;
  StandingOf standing_of_;
  std::vector<RoomRequest> requests_;
  std::vector<Promise> promises_;
  std::vector<Turn> turns_;
  std::map<ProcessKey, Asked> asked_;
  std::map<ProcessKey, Wait> waits_;                   // across requests that come again
  std::map<ProcessKey, std::uint64_t> let_in_ns_;      // granted last
  std::map<ProcessKey, std::uint64_t> refused_until_;  // asked again then
};

}  // namespace vram::daemon
