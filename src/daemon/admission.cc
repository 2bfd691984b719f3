#include "daemon/admission.h"

#include <algorithm>

#include "host/limit_text.h"
#include "wire/job_layout.h"

namespace vram::daemon {
namespace {

using host::format_bytes;
using host::JobDevice;
using host::JobInfo;
using wire::Verdict;

std::string card_name(const probe::Card& card) { return "card " + std::to_string(card.index); }

// What others hold that nobody can take back: processes in no job, and jobs whose memory stays.
std::uint64_t fixed_on(const Sight& sight, const probe::Card& card) {
  std::uint64_t lent = 0;
  for (const JobInfo& job : sight.jobs) {
    if (job.elastic && !job.stays) lent += settled_on(job, card.uuid);
  }
  return card.used > lent ? card.used - lent : 0;
}

bool contains(const std::vector<std::string>& list, const std::string& text) {
  return std::find(list.begin(), list.end(), text) != list.end();
}

}  // namespace

std::vector<std::string> Admissions::look(const Sight& sight) {
  const auto gone = [&](const std::string& path) {
    return std::none_of(sight.jobs.begin(), sight.jobs.end(),
                        [&](const JobInfo& job) { return job.path == path; });
  };
  std::erase_if(admitted_, [&](const auto& entry) { return gone(entry.first); });
  std::erase_if(doubted_, gone);
  std::vector<std::string> lines;
  for (const JobInfo& job : sight.jobs) {  // the oldest first
    const bool known = admitted_.count(job.path) != 0 || contains(doubted_, job.path);
    if (known || job.admission != wire::Admission::kAdmitted) continue;
    std::vector<Terms> terms;
    const AdmissionAnswer answer = judge(sight, job, &terms);
    if (answer.verdict == Verdict::kGranted) {
      admit(job, terms);
    } else {
      doubted_.push_back(job.path);
      lines.push_back("job " + say_job(job) +
                      " says it was admitted, but its reserve cannot be kept: " + answer.text);
    }
  }
  return lines;
}

AdmissionAnswer Admissions::judge(const Sight& sight, const JobInfo& job,
                                  std::vector<Terms>* terms) const {
  const Standing standing = standing_of_(job.uid);
  AdmissionAnswer worst{Verdict::kGranted, ""};
  for (const JobDevice& device : job.devices) {
    const probe::Card* card = find_card(sight, device.card.uuid);
    if (card == nullptr) continue;
    const std::uint64_t ceiling =
        standing.limit ? host::bytes_on(*standing.limit, card->capacity()) : wire::kUnlimited;
    Terms own{card->uuid, device.reserve, device.limit};
    if (own.reserve == 0 && job.elastic && standing.reserve) {
      own.reserve = std::min(host::bytes_on(*standing.reserve, card->capacity()), device.limit);
    }
    // A whole card was meant by no limit; less of it is what the user may have.
    if (own.limit == wire::kUnlimited) own.limit = ceiling;
    const std::uint64_t highest = std::min(ceiling, policy_->budget_on(*card));
    if (device.limit != wire::kUnlimited && device.limit > ceiling) {
      return {Verdict::kNever, "a limit of " + format_bytes(device.limit) + " on " +
                                   card_name(*card) + " is over what the policy gives you (" +
                                   format_bytes(ceiling) + ", " + standing.origin + "); use -m " +
                                   format_bytes(ceiling) + " or less"};
    }
    if (own.reserve > highest) {
      return {Verdict::kNever, "a reserve of " + format_bytes(own.reserve) + " on " +
                                   card_name(*card) + " is more than jobs may have reserved (" +
                                   format_bytes(highest) + ", " + standing.origin +
                                   "); reserve less"};
    }
    const AdmissionAnswer answer = judge_card(sight, job, *card, own);
    if (answer.verdict == Verdict::kNever) return answer;
    if (answer.verdict == Verdict::kWaits) worst = answer;
    terms->push_back(own);
  }
  return worst;
}

AdmissionAnswer Admissions::judge_card(const Sight& sight, const JobInfo& job,
                                       const probe::Card& card, const Terms& terms) const {
  const std::uint64_t claim = claim_of(job, card, terms);
  if (claim == 0) return {Verdict::kGranted, ""};
  const std::uint64_t budget = policy_->budget_on(card);
  std::uint64_t taken = fixed_on(sight, card);
  for (const JobInfo& other : sight.jobs) {
    if (other.path == job.path || admitted_.count(other.path) == 0) continue;
    taken += claim_of(other, card, {card.uuid, reserve_of(other, card.uuid), 0});
  }
  const std::uint64_t left = budget > taken ? budget - taken : 0;
  if (claim <= left) return {Verdict::kGranted, ""};
  return {Verdict::kWaits, card_name(card) + " has " + format_bytes(left) + " of " +
                               format_bytes(budget) + " left to reserve, and this job wants " +
                               format_bytes(claim) + ": " + holders_on(sight, job, card)};
}

std::uint64_t Admissions::claim_of(const JobInfo& job, const probe::Card& card,
                                   const Terms& terms) const {
  if (!job.elastic || !job.stays) return terms.reserve;
  // Nobody gets back what a job that stays has taken: all that it may ever take is kept for it, the
  // part beside what it holds already, which counts as held.
  if (terms.reserve == 0) return 0;
  const std::size_t at = device_on(job, card.uuid);
  const std::uint64_t limit = at < job.devices.size() ? job.devices[at].limit : 0;
  const std::uint64_t most = std::max(terms.reserve, std::min(limit, card.capacity()));
  const std::uint64_t held = settled_on(job, card.uuid);
  return most > held ? most - held : 0;
}

std::string Admissions::holders_on(const Sight& sight, const JobInfo& but,
                                   const probe::Card& card) const {
  std::string text;
  const auto add = [&](const std::string& holder) { text += (text.empty() ? "" : ", ") + holder; };
  for (const JobInfo& job : sight.jobs) {
    if (job.path == but.path || admitted_.count(job.path) == 0) continue;
    const std::uint64_t reserve = reserve_of(job, card.uuid);
    if (reserve != 0) add("job " + say_job(job) + " has reserved " + format_bytes(reserve));
  }
  const std::uint64_t fixed = fixed_on(sight, card);
  if (fixed != 0) add(format_bytes(fixed) + " are held by what cannot be parked");
  return text.empty() ? "nobody holds the rest" : text;
}

void Admissions::admit(const JobInfo& job, const std::vector<Terms>& terms) {
  Reserves& reserves = admitted_[job.path];
  for (const Terms& card : terms) reserves[card.uuid] = card.reserve;
}

std::uint64_t Admissions::reserve_of(const JobInfo& job, const std::string& uuid) const {
  const auto found = admitted_.find(job.path);
  if (found == admitted_.end()) return 0;
  const auto card = found->second.find(uuid);
  return card == found->second.end() ? 0 : card->second;
}

std::uint64_t Admissions::reserves_on(const Sight& sight, const std::string& uuid) const {
  std::uint64_t bytes = 0;
  for (const JobInfo& job : sight.jobs) bytes += reserve_of(job, uuid);
  return bytes;
}

}  // namespace vram::daemon
