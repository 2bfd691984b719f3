#pragma once

// Who is admitted to the cards: the reserves of all who are never exceed what the cards have.
//
// Whether a job was admitted stands in its file, so that a daemon that starts anew knows. The file
// is its owner's word: what it says counts only as far as the job would be admitted now, in the
// order in which jobs were made; and what this daemon admitted counts as it was then.

#include <map>
#include <string>
#include <vector>

#include "daemon/sight.h"
#include "wire/daemon_messages.h"

namespace vram::daemon {

struct AdmissionAnswer {
  wire::Verdict verdict = wire::Verdict::kNever;  // kGranted, kWaits or kNever
  std::string text;
};

// On one card, as the daemon wants it to be in the job's file.
struct Terms {
  std::string uuid;
  std::uint64_t reserve = 0;
  std::uint64_t limit = 0;
};

class Admissions {
 public:
  Admissions(const Policy* policy, StandingOf standing_of)
      : policy_(policy), standing_of_(std::move(standing_of)) {}

  // Forgets jobs that are gone, and takes in those whose files say that they were admitted. Returns
  // a line for each whose word cannot hold.
  std::vector<std::string> look(const Sight& sight);

  // Whether the job can be admitted now. `*terms`: what then holds for it.
  AdmissionAnswer judge(const Sight& sight, const host::JobInfo& job,
                        std::vector<Terms>* terms) const;
  void admit(const host::JobInfo& job, const std::vector<Terms>& terms);

  // What is always there for the job on a card, bytes.
  std::uint64_t reserve_of(const host::JobInfo& job, const std::string& uuid) const;
  std::uint64_t reserves_on(const Sight& sight, const std::string& uuid) const;

 private:
  using Reserves = std::map<std::string, std::uint64_t>;  // UUID -> bytes

  AdmissionAnswer judge_card(const Sight& sight, const host::JobInfo& job, const probe::Card& card,
                             const Terms& terms) const;
  std::uint64_t claim_of(const host::JobInfo& job, const probe::Card& card,
                         const Terms& terms) const;
  std::string holders_on(const Sight& sight, const host::JobInfo& but,
                         const probe::Card& card) const;

  const Policy* policy_;
  StandingOf standing_of_;
  std::map<std::string, Reserves> admitted_;  // path of the job file ->
  std::vector<std::string> doubted_;          // paths whose word does not hold
};

}  // namespace vram::daemon
