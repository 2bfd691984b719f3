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

// Who was allowed to hold more and does not take it within this has to ask again.
constexpr std::uint64_t kTaken_ns = 1000 * kMs;
// Asked for at a time, so that not every stream of a program asks.
constexpr std::uint64_t kStep = std::uint64_t{32} << 20;

const JobDevice* device_of(const JobInfo& job, const std::string& uuid) {
  const std::size_t at = device_on(job, uuid);
  return at < job.devices.size() ? &job.devices[at] : nullptr;
}

// What is held by those who move nothing: processes in no job, and jobs that are not elastic.
std::uint64_t held_by_others(const Sight& sight, const probe::Card& card) {
  std::uint64_t elastic = 0;
  for (const JobInfo& job : sight.jobs) {
    const JobDevice* const device = device_of(job, card.uuid);
    if (job.elastic && device != nullptr) elastic += device->used;
  }
  return card.used > elastic ? card.used - elastic : 0;
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
  std::erase_if(raised_, [&](const auto& entry) {
    return gone(entry.first.first) || entry.second.at_ns + kTaken_ns < sight.now_ns;
  });
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
  if (terms.reserve == 0) return {Verdict::kGranted, ""};
  const JobDevice& device = *device_of(job, card.uuid);
  const std::uint64_t claim = claim_of(sight, job, device, terms.reserve);
  const std::uint64_t left = left_for(sight, job, card, Others::kClaims);
  if (claim <= left) return {Verdict::kGranted, ""};
  return {Verdict::kWaits, card_name(card) + " has " + format_bytes(left) + " of " +
                               format_bytes(policy_->budget_on(card)) +
                               " left to reserve, and this job wants " + format_bytes(claim) +
                               ": " + holders_on(sight, job, card)};
}

std::uint64_t Admissions::claim_of(const Sight& sight, const JobInfo& job, const JobDevice& device,
                                   std::uint64_t reserve) const {
  // Nobody moves what it holds: all that it may ever take is kept for it.
  if (job.stays && reserve != 0) {
    const probe::Card* const card = find_card(sight, device.card.uuid);
    const std::uint64_t capacity = card == nullptr ? device.limit : card->capacity();
    reserve = std::max(reserve, std::min(device.limit, capacity));
  }
  const auto raised = raised_.find({job.path, device.card.uuid});
  return std::max({reserve, device.fixed, raised == raised_.end() ? 0 : raised->second.bytes});
}

std::uint64_t Admissions::left_for(const Sight& sight, const JobInfo& job, const probe::Card& card,
                                   Others others) const {
  std::uint64_t taken = held_by_others(sight, card);
  for (const JobInfo& other : sight.jobs) {
    const JobDevice* const device = device_of(other, card.uuid);
    if (!other.elastic || other.path == job.path || device == nullptr) continue;
    const std::uint64_t claim = claim_of(sight, other, *device, reserve_of(other, card.uuid));
    const std::uint64_t limit = device->stay_limit / wire::kGranule * wire::kGranule;
    taken += others == Others::kLimits ? std::max(claim, limit) : claim;
  }
  const std::uint64_t budget = policy_->budget_on(card);
  return budget > taken ? budget - taken : 0;
}

Admissions::Stay Admissions::judge_stay(const Sight& sight, const JobInfo& job,
                                        const std::string& uuid, std::uint64_t more) const {
  const probe::Card* const card = find_card(sight, uuid);
  const JobDevice* const device = device_of(job, uuid);
  if (card == nullptr || device == nullptr || more > card->capacity()) {
    return {0, 0, false, "there is no such card, or it is smaller; see 'vram devices'"};
  }
  const std::uint64_t kept = claim_of(sight, job, *device, reserve_of(job, uuid));
  const std::uint64_t wanted = device->fixed + more;
  if (wanted <= kept) return {kept, kept, false, ""};
  const std::uint64_t left = left_for(sight, job, *card, Others::kClaims);
  if (wanted <= left) {
    const std::uint64_t without_asking = left_for(sight, job, *card, Others::kLimits);
    return {wanted, std::max(wanted, std::min(wanted + kStep, without_asking)),
            wanted > without_asking, ""};
  }
  return {0, 0, false,
          format_bytes(more) + " more on " + card_name(*card) + " beside " +
              format_bytes(device->fixed) + " that cannot be parked would break a reserve; " +
              format_bytes(left > device->fixed ? left - device->fixed : 0) + " are left: " +
              holders_on(sight, job, *card) + "; reserve more for this job, or end one"};
}

void Admissions::raise(const Sight& sight, const JobInfo& job, const std::string& uuid,
                       std::uint64_t needed) {
  raised_[{job.path, uuid}] = {needed, sight.now_ns};
}

bool Admissions::is_contested(const Sight& sight, const JobInfo& job, const Terms& terms) const {
  const probe::Card* const card = find_card(sight, terms.uuid);
  return card != nullptr && terms.reserve > left_for(sight, job, *card, Others::kLimits);
}

std::uint64_t Admissions::stay_limit_of(const Sight& sight, const JobInfo& job,
                                        const JobDevice& device) const {
  const std::uint64_t claim = claim_of(sight, job, device, reserve_of(job, device.card.uuid));
  return std::max<std::uint64_t>(claim, 1);  // 0 is no limit
}

std::string Admissions::holders_on(const Sight& sight, const JobInfo& but,
                                   const probe::Card& card) const {
  std::string text;
  const auto add = [&](const std::string& holder) { text += (text.empty() ? "" : ", ") + holder; };
  std::uint64_t fixed = held_by_others(sight, card);
  for (const JobInfo& job : sight.jobs) {
    const JobDevice* const device = device_of(job, card.uuid);
    if (job.path == but.path || !job.elastic || device == nullptr) continue;
    const std::uint64_t reserve = reserve_of(job, card.uuid);
    if (reserve != 0) add("job " + say_job(job) + " has reserved " + format_bytes(reserve));
    fixed += claim_of(sight, job, *device, reserve) - reserve;
  }
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
