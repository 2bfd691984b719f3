#include "daemon/dry_run.h"

#include <algorithm>

#include "host/duration.h"
#include "host/limit_text.h"

namespace vram::daemon {
namespace {

using host::format_bytes;
using host::JobInfo;
using host::JobMember;

std::string memory_text(const Sight& sight, const Policy& policy, const JobInfo& job) {
  if (!job.elastic) return "not elastic: its memory stays";
  if (job.stays) return "its memory stays (--no-park)";
  std::uint64_t idle = 0, at_work = 0, parked = 0;
  for (const JobMember& member : job.members) {
    const bool moves = member.place == wire::Place::kParking;
    const std::uint64_t bytes = moves ? 0 : movable_of(member);
    (idles(sight, policy, member) ? idle : at_work) += bytes;
    parked += member.parked;
  }
  return "idle " + format_bytes(idle) + ", at work " + format_bytes(at_work) + ", parked " +
         format_bytes(parked);
}

std::string job_text(const Sight& sight, const Policy& policy, const JobInfo& job,
                     const Standing& standing, Admissions* admissions) {
  std::vector<Terms> terms;
  const AdmissionAnswer answer = admissions->judge(sight, job, &terms);
  std::string text = "job " + say_job(job) + ": ";
  if (answer.verdict == wire::Verdict::kGranted) {
    admissions->admit(job, terms);
    std::uint64_t reserve = 0;
    for (const Terms& card : terms) reserve += card.reserve;
    text += "admitted with a reserve of " + format_bytes(reserve);
  } else {
    text += std::string(answer.verdict == wire::Verdict::kWaits ? "waits: " : "refused: ") +
            answer.text;
  }
  return text + "; priority " + std::to_string(standing.priority) + ", may park " +
         name_of(standing.may_park) + "; " + memory_text(sight, policy, job) + "\n";
}

}  // namespace

std::string describe(const Sight& sight, const Policy& policy, const StandingOf& standing_of) {
  std::string text = "policy: " + policy.origin() + "; idle after " +
                     host::format_ms(policy.idle_after_ms()) + ", turns of " +
                     host::format_ms(policy.quantum_ms()) + " or more, host memory " +
                     format_bytes(policy.host_memory()) + "\n";
  for (const probe::Card& card : sight.cards) {
    text += "card " + std::to_string(card.index) + ": " + format_bytes(card.free) + " of " +
            format_bytes(card.capacity()) + " free, " + format_bytes(policy.budget_on(card)) +
            " may be reserved\n";
  }
  Admissions admissions(&policy, standing_of);
  for (const JobInfo& job : sight.jobs) {
    text += job_text(sight, policy, job, standing_of(job.uid), &admissions);
  }
  if (sight.jobs.empty()) text += "there are no jobs\n";
  return text;
}

}  // namespace vram::daemon
