#include "daemon/room.h"

#include <algorithm>

#include "host/duration.h"
#include "host/limit_text.h"
#include "probe/process.h"

namespace vram::daemon {
namespace {

using host::format_bytes;
using host::JobInfo;
using host::JobMember;
using ledger::Move;
using wire::Place;
using wire::Verdict;

// Who was granted room and does not take it within this does not need it any more.
constexpr std::uint64_t kPromise_ns = 2000 * kMs;
// Who asks again within this has waited all along.
constexpr std::uint64_t kSameWait_ns = 2000 * kMs;
// A process that has not begun to move by then is not counted on.
constexpr std::uint64_t kAnswer_ns = 10'000 * kMs;
// What kept a process from moving (a capture, an export) seldom lasts, but lasts longer than this.
constexpr std::uint64_t kAgain_ns = 5000 * kMs;
// A process that waits asks by itself; one that has not for so long is told when there is room.
constexpr std::uint64_t kSilent_ns = 1000 * kMs;
// A turn is this many times as long as the moves that it costs: nine tenths of the time are work,
// or more.
constexpr std::uint64_t kMovesATurn = 10;

template <typename Map, typename Keep>
void keep_if(Map* map, Keep keep) {
  std::erase_if(*map, [&](const auto& entry) { return !keep(entry); });
}

std::string refusal_text(wire::Refusal refusal) {
  switch (refusal) {
    case wire::Refusal::kBusy:
      return "its work did not come to an end";
    case wire::Refusal::kCapture:
      return "it captures a stream";
    case wire::Refusal::kShared:
      return "it shares memory with others";
    case wire::Refusal::kManaged:
      return "it holds managed memory";
    case wire::Refusal::kUnmapped:
      return "it holds memory that is mapped nowhere";
    case wire::Refusal::kHostMemory:
      return "the host has no memory for it";
    case wire::Refusal::kCardMemory:
      return "the card has no room for it";
    case wire::Refusal::kDriver:
      return "the driver refused";
    case wire::Refusal::kNothing:
      return "it holds nothing that could be moved";
    case wire::Refusal::kNone:
      break;
  }
  return "it did not answer";
}

}  // namespace

std::string Room::add(const Sight& sight, const RoomRequest& request) {
  const probe::Card* card = find_card(sight, request.uuid);
  if (card == nullptr) return "there is no such card on this host; see 'vram devices'";
  if (request.bytes > card->capacity()) {
    return format_bytes(request.bytes) + " is more than card " + std::to_string(card->index) +
           " has (" + format_bytes(card->capacity()) + "); use less";
  }
  // A request of a wait that goes on takes the place of the one that nobody made.
  std::erase_if(requests_, [&](const RoomRequest& known) {
    return known.number == 0 && known.who == request.who;
  });
  requests_.push_back(request);
  Wait& wait = waits_[request.who];
  if (wait.seen_ns + kSameWait_ns < request.since_ns) wait.since_ns = request.since_ns;
  wait.seen_ns = request.since_ns;
  // Its memory comes back in one piece: what was promised for it before was not had.
  const Found asker = find(sight, request.who);
  if (asker && asker.member->place != Place::kCard && asker.member->place != Place::kNone) {
    std::erase_if(promises_,
                  [&](const Promise& p) { return p.who == request.who && p.uuid == request.uuid; });
  }
  return "";
}

void Room::drop(std::uint64_t number) {
  std::erase_if(requests_, [&](const RoomRequest& known) { return known.number == number; });
}

void Room::forget(const Sight& sight) {
  const auto lives = [&](const ProcessKey& key) { return static_cast<bool>(find(sight, key)); };
  std::erase_if(requests_, [&](const RoomRequest& request) { return !lives(request.who); });
  std::erase_if(promises_, [&](const Promise& promise) {
    return !lives(promise.who) || promise.at_ns + kPromise_ns < sight.now_ns ||
           remaining(sight, promise) == 0;
  });
  keep_if(&let_in_ns_, [&](const auto& entry) { return lives(entry.first); });
  keep_if(&asked_, [&](const auto& entry) { return lives(entry.first); });
  keep_if(&refused_until_, [&](const auto& entry) { return entry.second > sight.now_ns; });
  for (const RoomRequest& request : requests_) waits_[request.who].seen_ns = sight.now_ns;
  keep_if(&waits_, [&](const auto& entry) {
    return lives(entry.first) && entry.second.seen_ns + kSameWait_ns >= sight.now_ns;
  });
}

std::uint64_t Room::remaining(const Sight& sight, const Promise& promise) const {
  const Found found = find(sight, promise.who);
  if (!found) return 0;
  const std::uint64_t now = share_on(found, promise.uuid).settled;
  const std::uint64_t taken = now > promise.settled_before ? now - promise.settled_before : 0;
  return promise.bytes > taken ? promise.bytes - taken : 0;
}

std::uint64_t Room::promised_on(const Sight& sight, const std::string& uuid) const {
  std::uint64_t bytes = 0;
  for (const Promise& promise : promises_) {
    if (promise.uuid == uuid) bytes += remaining(sight, promise);
  }
  return bytes;
}

// What came of earlier orders.
void Room::judge_asked(const Sight& sight, RoomPlan* plan) {
  std::erase_if(asked_, [&](const auto& entry) {
    const auto& [key, asked] = entry;
    const JobMember& member = *find(sight, key).member;
    const bool there = is_there(asked.move, member.place);
    // Parked, and wanted again since.
    const bool was_parked = asked.move == Move::kToHost && member.times != asked.times_before;
    if (there || was_parked) return true;
    const bool moves = member.place == Place::kParking || member.place == Place::kRestoring;
    const bool late = asked.at_ns + kAnswer_ns < sight.now_ns && !moves;
    if ((member.asked || moves) && !late) return false;
    if (asked.move == Move::kToHost) {
      refused_until_[key] = sight.now_ns + kAgain_ns;
      plan->lines.push_back("not parked: " + asked.what + ": " +
                            refusal_text(late ? wire::Refusal::kNone : member.refusal));
    }
    return true;
  });
}

// Processes that wait for their memory and have nobody who asks for it.
void Room::add_waiting(const Sight& sight) {
  std::erase_if(requests_, [](const RoomRequest& request) { return request.number == 0; });
  for (const JobInfo& job : sight.jobs) {
    if (!job.elastic || job.devices.empty()) continue;
    for (const JobMember& member : job.members) {
      const ProcessKey key = key_of(job, member);
      const bool asks = std::any_of(requests_.begin(), requests_.end(),
                                    [&](const RoomRequest& known) { return known.who == key; });
      const bool waits = member.place == Place::kWaiting && member.parked != 0 && !asks;
      const auto known = waits_.find(key);
      const bool silent = known == waits_.end() || known->second.seen_ns == 0 ||
                          known->second.seen_ns + kSilent_ns < sight.now_ns;
      if (!waits || !silent || member.since_ns + kSilent_ns > sight.now_ns) continue;
      // Of a job with several cards nobody else knows where the memory belongs.
      if (job.devices.size() != 1 || asked_.count(key) != 0) continue;
      requests_.push_back({0, key, job.devices[0].card.uuid, member.parked, sight.now_ns, ~0ull});
      if (known == waits_.end()) waits_[key].since_ns = sight.now_ns;
    }
  }
}

bool Room::is_within_reserve(const Sight& sight, const Found& asker,
                             const RoomRequest& request) const {
  const std::uint64_t promised = [&] {
    std::uint64_t bytes = 0;
    for (const Promise& promise : promises_) {
      if (promise.who.path == asker.job->path && promise.uuid == request.uuid) {
        bytes += remaining(sight, promise);
      }
    }
    return bytes;
  }();
  return settled_on(*asker.job, request.uuid) + promised + request.bytes <=
         admissions_->reserve_of(*asker.job, request.uuid);
}

std::vector<Room::Asker> Room::askers(const Sight& sight) {
  std::vector<Asker> list;
  for (const RoomRequest& request : requests_) {
    const Found found = find(sight, request.who);
    list.push_back({&request, found, standing_of_(found.job->uid),
                    is_within_reserve(sight, found, request), waits_[request.who].since_ns});
  }
  // A promise before a wish; then who matters more; then who waits longest.
  std::stable_sort(list.begin(), list.end(), [](const Asker& a, const Asker& b) {
    if (a.within_reserve != b.within_reserve) return a.within_reserve;
    if (a.standing.priority != b.standing.priority) {
      return a.standing.priority > b.standing.priority;
    }
    return a.since_ns < b.since_ns;
  });
  return list;
}

RoomPlan Room::look(const Sight& sight) {
  RoomPlan plan;
  forget(sight);
  judge_asked(sight, &plan);
  add_waiting(sight);
  turns_.clear();
  std::map<std::string, Purse> purses;
  for (const probe::Card& card : sight.cards) {
    Purse& purse = purses[card.uuid];
    purse.free = static_cast<std::int64_t>(card.free) -
                 static_cast<std::int64_t>(promised_on(sight, card.uuid));
    for (const auto& [key, asked] : asked_) {
      if (asked.move != Move::kToHost) continue;
      purse.coming += static_cast<std::int64_t>(share_on(find(sight, key), card.uuid).movable);
    }
  }
  for (const Asker& asker : askers(sight)) {
    serve(sight, asker, &purses[asker.request->uuid], &plan);
  }
  for (const RoomRequest& request : requests_) {
    const auto decided = [&](const RoomDecision& d) { return d.number == request.number; };
    if (request.number == 0) continue;
    if (std::any_of(plan.decisions.begin(), plan.decisions.end(), decided)) continue;
    if (request.deadline_ns > sight.now_ns) continue;
    plan.decisions.push_back({request.number, Verdict::kLater, "no room yet; ask again"});
  }
  for (const RoomDecision& decision : plan.decisions) drop(decision.number);
  park_idle(sight, &plan);
  return plan;
}

void Room::grant(const Sight& sight, const Asker& asker, Purse* purse, RoomPlan* plan) {
  const RoomRequest& request = *asker.request;
  purse->free -= static_cast<std::int64_t>(request.bytes);
  const std::uint64_t settled = share_on(asker.found, request.uuid).settled;
  Promise promise{request.who, request.uuid, request.bytes, settled, sight.now_ns};
  std::erase_if(promises_, [&](const Promise& known) {
    if (!(known.who == request.who && known.uuid == request.uuid)) return false;
    promise.bytes += remaining(sight, known);
    return true;
  });
  promises_.push_back(promise);
  let_in_ns_[request.who] = sight.now_ns;
  if (request.number != 0) {
    plan->decisions.push_back({request.number, Verdict::kGranted, ""});
    const auto wait = waits_.find(request.who);
    if (wait != waits_.end()) wait->second.since_ns = sight.now_ns;
    return;
  }
  order(sight, asker.found, Move::kToCard,
        "restoring job " + say_job(*asker.found.job) + ": " + format_bytes(request.bytes), plan);
}

void Room::serve(const Sight& sight, const Asker& asker, Purse* purse, RoomPlan* plan) {
  const auto wanted = static_cast<std::int64_t>(asker.request->bytes);
  if (purse->free >= wanted) {
    grant(sight, asker, purse, plan);
    return;
  }
  const std::int64_t missing = wanted - std::max<std::int64_t>(purse->free, 0) - purse->coming;
  if (missing <= 0) {
    purse->free -= wanted;  // it comes, and is this asker's
    return;
  }
  std::int64_t found = 0;
  std::vector<Giver> chosen;
  std::uint64_t first_free_ns = 0;
  const Giver* holder = nullptr;
  const std::vector<Giver> all = givers(sight, asker);
  for (const Giver& giver : all) {
    if (found >= missing) break;
    found += static_cast<std::int64_t>(giver.bytes);
    chosen.push_back(giver);
    if (giver.free_ns <= first_free_ns) continue;
    first_free_ns = giver.free_ns;
    holder = &giver;
  }
  if (found < missing) return;  // nobody is moved in vain
  if (holder != nullptr) {
    turns_.push_back(
        {asker.request->uuid, holder->found.job->id, asker.found.job->id, first_free_ns});
  }
  // Parked together, at the end of the last turn among them: half of the room helps nobody.
  if (first_free_ns <= sight.now_ns) {
    // Whatever is not needed beside the larger ones stays.
    for (auto giver = chosen.begin(); giver != chosen.end();) {
      const auto bytes = static_cast<std::int64_t>(giver->bytes);
      const bool needed = found - bytes < missing;
      if (!needed) found -= bytes;
      giver = needed ? giver + 1 : chosen.erase(giver);
    }
    take_from(sight, asker, chosen, purse, plan);
  }
  purse->free -= wanted;
}

void Room::take_from(const Sight& sight, const Asker& asker, const std::vector<Giver>& chosen,
                     Purse* purse, RoomPlan* plan) {
  for (const Giver& giver : chosen) {
    const JobMember& member = *giver.found.member;
    std::string why = "at work";
    if (giver.idle) why = "idle " + host::say_ms((sight.now_ns - member.idle_ns) / kMs);
    if (giver.free_ns != 0) why = "its turn is over";
    const JobInfo& job = *giver.found.job;
    order(sight, giver.found, Move::kToHost,
          "parked job " + job.id + " (" + probe::user_name(job.uid) + ", " + why +
              "): " + format_bytes(giver.bytes) + " for job " + asker.found.job->id + "'s " +
              format_bytes(asker.request->bytes),
          plan);
    purse->coming += static_cast<std::int64_t>(giver.bytes);
  }
}

bool Room::may_give(const Sight& sight, const Asker& asker, const Found& giver) const {
  const JobMember& member = *giver.member;
  const ProcessKey key = key_of(*giver.job, member);
  if (!giver.job->elastic || giver.job->stays || key == asker.request->who) return false;
  if (member.place != Place::kCard || asked_.count(key) != 0) return false;
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
  std::erase_if(idle, [&](const Giver& giver) {
    if (giver.bytes > left) return true;
    left -= giver.bytes;
    return false;
  });
  return idle;
}

std::uint64_t Room::host_memory_left(const Sight& sight) const {
  std::uint64_t parked = 0;
  for (const JobInfo& job : sight.jobs) {
    for (const JobMember& member : job.members) parked += member.parked;
  }
  for (const auto& [key, asked] : asked_) {
    const Found found = find(sight, key);
    if (!found || asked.move != Move::kToHost || found.member->place != Place::kCard) continue;
    parked += movable_of(*found.member);
  }
  return policy_->host_memory() > parked ? policy_->host_memory() - parked : 0;
}

// Jobs that asked for it themselves.
void Room::park_idle(const Sight& sight, RoomPlan* plan) {
  for (const JobInfo& job : sight.jobs) {
    if (!job.elastic || job.stays || job.park_after_ms == 0) continue;
    for (const JobMember& member : job.members) {
      const ProcessKey key = key_of(job, member);
      const bool moves = member.place != Place::kCard || member.asked || asked_.count(key) != 0;
      const bool waits = std::any_of(requests_.begin(), requests_.end(),
                                     [&](const RoomRequest& known) { return known.who == key; });
      if (moves || waits || member.idle_ns == 0 || refused_until_.count(key) != 0) continue;
      if (member.idle_ns + job.park_after_ms * kMs > sight.now_ns) continue;
      const std::uint64_t bytes = movable_of(member);
      if (bytes == 0 || bytes > host_memory_left(sight)) continue;
      order(sight, {&job, &member}, Move::kToHost,
            "parked job " + say_job(job) + ": " + format_bytes(bytes) + ", idle " +
                host::say_ms((sight.now_ns - member.idle_ns) / kMs) + ", as it was started to be",
            plan);
    }
  }
}

void Room::order(const Sight& sight, const Found& found, Move move, const std::string& line,
                 RoomPlan* plan) {
  const ProcessKey key = key_of(*found.job, *found.member);
  asked_[key] = {sight.now_ns, move, found.member->times, "job " + say_job(*found.job)};
  plan->moves.push_back({key, move, line});
}

}  // namespace vram::daemon
