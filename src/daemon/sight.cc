#include "daemon/sight.h"

#include "probe/process.h"

namespace vram::daemon {

ProcessKey key_of(const host::JobInfo& job, const host::JobMember& member) {
  return {job.path, member.slot, member.owner.identity, member.owner.pid_namespace};
}

Found find(const Sight& sight, const ProcessKey& key) {
  for (const host::JobInfo& job : sight.jobs) {
    if (job.path != key.path) continue;
    for (const host::JobMember& member : job.members) {
      if (key_of(job, member) == key) return {&job, &member};
    }
  }
  return {};
}

const probe::Card* find_card(const Sight& sight, const std::string& uuid) {
  for (const probe::Card& card : sight.cards) {
    if (card.uuid == uuid) return &card;
  }
  return nullptr;
}

std::size_t device_on(const host::JobInfo& job, const std::string& uuid) {
  std::size_t at = 0;
  while (at < job.devices.size() && job.devices[at].card.uuid != uuid) ++at;
  return at;
}

host::JobShare share_on(const Found& found, const std::string& uuid) {
  const std::size_t at = device_on(*found.job, uuid);
  return at < found.member->shares.size() ? found.member->shares[at] : host::JobShare{};
}

std::uint64_t settled_on(const host::JobInfo& job, const std::string& uuid) {
  std::uint64_t bytes = 0;
  for (const host::JobMember& member : job.members) {
    bytes += share_on({&job, &member}, uuid).settled;
  }
  return bytes;
}

bool is_there(ledger::Move move, wire::Place place) {
  if (move == ledger::Move::kToCard) return place == wire::Place::kCard;
  return place == wire::Place::kHost || place == wire::Place::kWaiting;
}

bool idles(const Sight& sight, const Policy& policy, const host::JobMember& member) {
  if (is_there(ledger::Move::kToHost, member.place)) return true;
  return member.idle_ns != 0 && member.idle_ns + policy.idle_after_ms() * kMs <= sight.now_ns;
}

std::string say_job(const host::JobInfo& job) {
  return job.id + " (" + probe::user_name(job.uid) + ")";
}

}  // namespace vram::daemon
