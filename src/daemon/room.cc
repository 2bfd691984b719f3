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
// What nobody can give is waited for as long.
constexpr std::uint64_t kHopeless_ns = 2000 * kMs;
// A process that waits asks by itself; one that has not for so long is told when there is room.
constexpr std::uint64_t kSilent_ns = 1000 * kMs;
// Who gives, gives so much more than is missing, or this part of the card, so that an asker which
// grows a little later does not cost another move each time.
constexpr std::uint64_t kMore = std::uint64_t{1} << 30;
constexpr std::uint64_t kMorePart = 16;

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
    const bool parks = asked.move == Move::kToHost;
    // Parked, wherever its memory is since.
    if (parks ? member.times != asked.times_before : is_there(asked.move, member.place)) {
      return true;
    }
    const bool moves = member.place == Place::kParking || member.place == Place::kRestoring;
    const bool late = asked.at_ns + kAnswer_ns < sight.now_ns && !moves;
    if ((member.asked || moves) && !late) return false;
    // Without a refusal, what it had idle was enough.
    if (parks && (late || member.refusal != wire::Refusal::kNone)) {
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
  std::stable_sort(list.begin(), list.end(), comes_before);
  return list;
}

// A promise before a wish; then who matters more; then who waits longest.
bool Room::comes_before(const Asker& a, const Asker& b) {
  if (a.within_reserve != b.within_reserve) return a.within_reserve;
  if (a.standing.priority != b.standing.priority) return a.standing.priority > b.standing.priority;
  if (a.since_ns != b.since_ns) return a.since_ns < b.since_ns;
  return a.request->who < b.request->who;
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
      purse.coming += static_cast<std::int64_t>(coming_from(find(sight, key), asked, card.uuid));
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
  order(sight, asker.found, Move::kToCard, {},
        "restoring job " + say_job(*asker.found.job) + ": " + format_bytes(request.bytes), plan);
}

void Room::serve(const Sight& sight, const Asker& asker, Purse* purse, RoomPlan* plan) {
  const auto asked = asked_.find(asker.request->who);
  const bool gives = asked != asked_.end() && asked->second.move == Move::kToHost;
  // What it waits for is more from now on.
  if (gives && asker.found.member->place != Place::kCard) return;
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
  if (found < missing) {  // nobody is moved in vain
    refuse_if_hopeless(sight, asker, plan);
    return;
  }
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
    take_from(sight, asker, chosen, missing, purse, plan);
  }
  purse->free -= wanted;
}

// More than there would be if everybody gave all, for longer than it takes others to come and go: a
// program that has other ways should not wait for it. One that waits for what it had before does.
void Room::refuse_if_hopeless(const Sight& sight, const Asker& asker, RoomPlan* plan) const {
  const RoomRequest& request = *asker.request;
  const probe::Card* card = find_card(sight, request.uuid);
  if (request.number == 0 || card == nullptr || asker.found.member->place != Place::kCard) return;
  const std::uint64_t most = card->free + most_from_others(sight, asker);
  if (request.bytes <= most || asker.since_ns + kHopeless_ns > sight.now_ns) return;
  const std::string text = format_bytes(request.bytes) + " on card " + std::to_string(card->index) +
                           " is more than others could give (" + format_bytes(most) +
                           " with what is free); use less, or end a job";
  plan->decisions.push_back({request.number, Verdict::kNever, text});
  plan->lines.push_back("refused job " + say_job(*asker.found.job) + ": " + text);
}

void Room::take_from(const Sight& sight, const Asker& asker, const std::vector<Giver>& chosen,
                     std::int64_t missing, Purse* purse, RoomPlan* plan) {
  const std::string& uuid = asker.request->uuid;
  const probe::Card* card = find_card(sight, uuid);
  const std::uint64_t more = card == nullptr ? 0 : std::min(kMore, card->capacity() / kMorePart);
  for (const Giver& giver : chosen) {
    const JobMember& member = *giver.found.member;
    std::string why = "at work";
    if (giver.idle) why = "idle " + host::say_ms((sight.now_ns - member.idle_ns) / kMs);
    if (is_there(Move::kToHost, member.place)) why = "parked in part";
    if (giver.free_ns != 0) why = "its turn is over";
    const JobInfo& job = *giver.found.job;
    const std::uint64_t bytes = std::min(
        giver.bytes, static_cast<std::uint64_t>(std::max<std::int64_t>(missing, 0)) + more);
    order(sight, giver.found, Move::kToHost, {bytes, job.devices[device_on(job, uuid)].account},
          "parked job " + job.id + " (" + probe::user_name(job.uid) + ", " + why +
              "): " + format_bytes(bytes) + " for job " + asker.found.job->id + "'s " +
              format_bytes(asker.request->bytes),
          plan);
    missing -= static_cast<std::int64_t>(bytes);
    purse->coming += static_cast<std::int64_t>(bytes);
  }
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
      order(sight, {&job, &member}, Move::kToHost, {},
            "parked job " + say_job(job) + ": " + format_bytes(bytes) + ", idle " +
                host::say_ms((sight.now_ns - member.idle_ns) / kMs) + ", as it was started to be",
            plan);
    }
  }
}

void Room::order(const Sight& sight, const Found& found, Move move, const ledger::Amount& amount,
                 const std::string& line, RoomPlan* plan) {
  const ProcessKey key = key_of(*found.job, *found.member);
  asked_[key] = {sight.now_ns, move, amount, found.member->times, "job " + say_job(*found.job)};
  plan->moves.push_back({key, move, amount, line});
  if (move == Move::kToCard || found.member->place == Place::kCard) return;
  // What it asks for is not all any more.
  for (const RoomRequest& request : requests_) {
    if (!(request.who == key) || request.number == 0) continue;
    plan->decisions.push_back({request.number, Verdict::kLater, "it gives more first; ask again"});
  }
}

}  // namespace vram::daemon
