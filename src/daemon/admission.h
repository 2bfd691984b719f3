#pragma once

// Who is admitted to the cards, and how much of them a job may hold that nobody can take back: all
// reserves, and what jobs hold or may hold so above theirs, never exceed what the cards have. So a
// job that wants its reserve gets it, once others have given back what can be moved.
//
// Whether a job was admitted stands in its file, so that a daemon that starts anew knows. The file
// is its owner's word: what it says counts only as far as the job would be admitted now, in the
// order in which jobs were made; and what this daemon admitted counts as it was then.

#include <map>
#include <string>
#include <utility>
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

  // Whether the job may hold `more` bytes of a card that nobody can take back: `needed` is what it
  // then holds, 0 when it may not, see `text`; `limit` what it may hold without asking again.
  // `contested`: others might take that without asking, before their stay limits are lowered.
  struct Stay {
    std::uint64_t needed = 0;
    std::uint64_t limit = 0;
    bool contested = false;
    std::string text;
  };
  Stay judge_stay(const Sight& sight, const host::JobInfo& job, const std::string& uuid,
                  std::uint64_t more) const;
  // The job was told that it may hold so much.
  void raise(const Sight& sight, const host::JobInfo& job, const std::string& uuid,
             std::uint64_t needed);
  // What others may take without asking beside this job's reserve.
  bool is_contested(const Sight& sight, const host::JobInfo& job, const Terms& terms) const;
  // What the stay limit of a job has to be: what is kept for it and no more.
  std::uint64_t stay_limit_of(const Sight& sight, const host::JobInfo& job,
                              const host::JobDevice& device) const;

  // What is always there for the job on a card, bytes.
  std::uint64_t reserve_of(const host::JobInfo& job, const std::string& uuid) const;
  std::uint64_t reserves_on(const Sight& sight, const std::string& uuid) const;

 private:
  using Reserves = std::map<std::string, std::uint64_t>;  // UUID -> bytes

  struct Raised {
    std::uint64_t bytes = 0;
    std::uint64_t at_ns = 0;
  };

  AdmissionAnswer judge_card(const Sight& sight, const host::JobInfo& job, const probe::Card& card,
                             const Terms& terms) const;
  // What is kept for a job on a card that reserves so much there.
  std::uint64_t claim_of(const Sight& sight, const host::JobInfo& job,
                         const host::JobDevice& device, std::uint64_t reserve) const;
  // What is left of the card beside what is kept for others. `limits`: and beside what they may
  // still take without asking.
  enum class Others { kClaims, kLimits };
  std::uint64_t left_for(const Sight& sight, const host::JobInfo& job, const probe::Card& card,
                         Others others) const;
  std::string holders_on(const Sight& sight, const host::JobInfo& but,
                         const probe::Card& card) const;

  const Policy* policy_;
  StandingOf standing_of_;
  std::map<std::string, Reserves> admitted_;                      // path of the job file ->
  std::map<std::pair<std::string, std::string>, Raised> raised_;  // path, UUID ->
  std::vector<std::string> doubted_;                              // paths whose word does not hold
};

}  // namespace vram::daemon
