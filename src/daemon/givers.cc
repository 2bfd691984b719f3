// Who could give memory to whom, how much, and in which order.

#include <algorithm>

#include "daemon/room.h"

namespace vram::daemon {
namespace {

using host::JobInfo;
using host::JobMember;
using ledger::Move;
using wire::Place;

// A turn is this many times as long as the moves that it costs: nine tenths of the time are work,
// or more.
constexpr std::uint64_t kMovesATurn = 10;

}  // namespace

// Whether it is parked, and waits for its memory, and is served first or may take it already: what
// it still has is not taken for the other.
bool Room::waits_before(const Sight& sight, const Found& giver, const Asker& asker) const {
  if (giver.member->place == Place::kCard) return false;
  const RoomRequest own{.who = key_of(*giver.job, *giver.member),
                        .uuid = asker.request->uuid,
                        .bytes = giver.member->parked};
  const auto is_own = [&](const Promise& promise) { return promise.who == own.who; };
  if (std::any_of(promises_.begin(), promises_.end(), is_own)) return true;
  const auto wait = waits_.find(own.who);
  if (wait == waits_.end()) return false;
  return comes_before({&own, giver, standing_of_(giver.job->uid),
                       is_within_reserve(sight, giver, own), wait->second.since_ns},
                      asker);
}

bool Room::may_give(const Sight& sight, const Asker& asker, const Found& giver) const {
  const JobMember& member = *giver.member;
  const ProcessKey key = key_of(*giver.job, member);
  if (!giver.job->elastic || giver.job->stays || key == asker.request->who) return false;
  const bool rests = member.place == Place::kCard || is_there(Move::kToHost, member.place);
  if (!rests || asked_.count(key) != 0 || waits_before(sight, giver, asker)) return false;
  const auto refused = refused_until_.find(key);
  if (refused != refused_until_.end() && refused->second > sight.now_ns) return false;
  return share_on(giver, asker.request->uuid).movable != 0;
}

std::uint64_t Room::turn_end(const Asker& asker, const Found& holder) const {
  const auto let_in = let_in_ns_.find(key_of(*holder.job, *holder.member));
  const std::uint64_t begin =
      std::max({asker.since_ns, holder.member->since_ns,
                let_in == let_in_ns_.end() ? std::uint64_t{0} : let_in->second});
  const std::uint64_t moves_ns = (holder.member->move_us + asker.found.member->move_us) * 1000;
  return begin + std::max(policy_->quantum_ms() * kMs, kMovesATurn * moves_ns);
}

// Who could give, in the order in which they are asked to.
std::vector<Room::Giver> Room::givers(const Sight& sight, const Asker& asker) const {
  std::vector<Giver> idle, above, at_work;
  const std::string& uuid = asker.request->uuid;
  for (const JobInfo& job : sight.jobs) {
    const Standing standing = standing_of_(job.uid);
    const bool own = job.uid == asker.found.job->uid;
    for (const JobMember& member : job.members) {
      const Found found{&job, &member};
      if (!may_give(sight, asker, found)) continue;
      Giver giver{found, share_on(found, uuid).movable, standing.priority, member.idle_ns, 0,
                  false};
      giver.idle = idles(sight, *policy_, member);
      if (is_there(Move::kToHost, member.place)) giver.age = 0;
      const bool is_above = settled_on(job, uuid) > admissions_->reserve_of(job, uuid);
      if (giver.idle && (own || asker.standing.may_park != MayPark::kOwn)) {
        idle.push_back(giver);
      } else if (asker.within_reserve && (is_above || giver.idle)) {
        // A reserve is kept whoever holds the memory: that was the price of being admitted.
        above.push_back(giver);
      } else if ((own || asker.standing.may_park == MayPark::kAny) &&
                 standing.priority <= asker.standing.priority) {
        giver.age = member.since_ns;
        giver.free_ns = turn_end(asker, found);
        at_work.push_back(giver);
      }
    }
  }
  const auto in_order = [](std::vector<Giver>* list) {
    std::stable_sort(list->begin(), list->end(), [](const Giver& a, const Giver& b) {
      return a.priority != b.priority ? a.priority < b.priority : a.age < b.age;
    });
  };
  for (auto* list : {&idle, &above, &at_work}) in_order(list);
  idle.insert(idle.end(), above.begin(), above.end());
  idle.insert(idle.end(), at_work.begin(), at_work.end());
  std::uint64_t left = host_memory_left(sight);
  std::erase_if(idle, [&](Giver& giver) {
    giver.bytes = std::min(giver.bytes, left);
    left -= giver.bytes;
    return giver.bytes == 0;
  });
  return idle;
}

std::uint64_t Room::most_from_others(const Sight& sight, const Asker& asker) const {
  std::uint64_t bytes = 0;
  for (const JobInfo& job : sight.jobs) {
    const bool may = job.uid == asker.found.job->uid || asker.standing.may_park != MayPark::kOwn ||
                     asker.within_reserve;
    if (!job.elastic || job.stays || !may) continue;
    for (const JobMember& member : job.members) {
      if (key_of(job, member) == asker.request->who) continue;
      bytes += share_on({&job, &member}, asker.request->uuid).movable;
    }
  }
  return bytes;
}

// What a process that was asked to park has not given of a card yet.
std::uint64_t Room::coming_from(const Found& found, const Asked& asked,
                                const std::string& uuid) const {
  const std::size_t at = device_on(*found.job, uuid);
  if (asked.move != Move::kToHost || at == found.job->devices.size()) return 0;
  const std::uint64_t movable = share_on(found, uuid).movable;
  if (asked.amount.bytes == 0) return movable;
  const bool of_this = found.job->devices[at].account == asked.amount.device;
  return of_this ? std::min(movable, asked.amount.bytes) : 0;
}

std::uint64_t Room::host_memory_left(const Sight& sight) const {
  std::uint64_t parked = 0;
  for (const JobInfo& job : sight.jobs) {
    for (const JobMember& member : job.members) parked += member.parked;
  }
  for (const auto& [key, asked] : asked_) {
    const Found found = find(sight, key);
    // What moves already is among what is parked.
    if (!found || found.member->place == Place::kParking) continue;
    for (const host::JobDevice& device : found.job->devices) {
      parked += coming_from(found, asked, device.card.uuid);
    }
  }
  return policy_->host_memory() > parked ? policy_->host_memory() - parked : 0;
}

}  // namespace vram::daemon
