#include "daemon/orders.h"

#include <algorithm>
#include <cstring>

#include "daemon/asking.h"
#include "daemon/reply_text.h"
#include "host/limit_text.h"

namespace vram::daemon {
namespace {

using wire::DaemonAsk;
using wire::Place;
using wire::Refusal;

ledger::Move move_of(DaemonAsk ask) {
  return ask == DaemonAsk::kPark ? ledger::Move::kToHost : ledger::Move::kToCard;
}

}  // namespace

const host::JobInfo* Orders::allowed_job(const Sight& sight, const Caller& caller,
                                         const std::string& id) const {
  const bool any = caller.uid == 0 || standing_of_(caller.uid).may_park == MayPark::kAny;
  for (const host::JobInfo& job : sight.jobs) {
    if (job.id == id && (any || job.uid == caller.uid)) return &job;
  }
  return nullptr;
}

std::vector<OrderResult> Orders::add(const Sight& sight, const Caller& caller,
                                     const wire::DaemonRequest& request) {
  const auto refuse = [&](const std::string& text) {
    OrderResult result{caller.client, wire::make_reply(request.ask, wire::Verdict::kNever), ""};
    put_text(text, &result.reply);
    result.line = "refused user " + caller.name + ": " + text;
    return std::vector{result};
  };
  const std::string id = request.job;
  const host::JobInfo* job = allowed_job(sight, caller, id);
  // One answer for jobs that are not there and jobs that are not the caller's business.
  if (job == nullptr) {
    const Standing standing = standing_of_(caller.uid);
    return refuse("there is no job '" + id + "' that " + caller.name + " may move (may_park is " +
                  name_of(standing.may_park) + ", " + standing.origin +
                  "); ask its owner, or the administrator");
  }
  if (!job->elastic) {
    return refuse("job " + id + " is not elastic, so its memory cannot be moved");
  }
  Order order{caller,
              request.ask,
              say_job(*job),
              sight.now_ns + std::uint64_t{request.timeout_ms} * kMs,
              {}};
  const ledger::Move move = move_of(request.ask);
  for (const host::JobMember& member : job->members) {
    const std::uint64_t more = move == ledger::Move::kToHost ? movable_of(member) : 0;
    if (member.place == Place::kNone || (is_there(move, member.place) && more == 0)) continue;
    const std::uint64_t bytes = member.parked + more;
    if (!ask_to_move(*job, member, move, {})) continue;
    order.open.push_back({key_of(*job, member), bytes, member.times});
  }
  open_.push_back(std::move(order));
  return {};
}

void Orders::drop(std::uint64_t client) {
  std::erase_if(open_, [&](const Order& order) { return order.caller.client == client; });
}

void Orders::judge(const Sight& sight, Order* order) {
  std::erase_if(order->open, [&](const One& one) {
    const Found found = find(sight, one.who);
    const bool over = order->deadline_ns <= sight.now_ns;
    const bool parks = order->ask == DaemonAsk::kPark;
    const bool parked_since = found && parks && found.member->times != one.times_before;
    // Who was asked for the rest may have refused, or hold nothing more that moves.
    const bool waits =
        found && parks && (found.member->asked || found.member->refusal > Refusal::kNothing);
    if (found && (parked_since || (is_there(move_of(order->ask), found.member->place) && !waits))) {
      ++order->moved;
      order->bytes += one.bytes;
      return true;
    }
    const bool moves = found && (found.member->place == Place::kParking ||
                                 found.member->place == Place::kRestoring);
    if (found && (found.member->asked || moves) && !over) return false;
    ++order->failed;
    return true;
  });
}

std::vector<OrderResult> Orders::look(const Sight& sight) {
  std::vector<OrderResult> results;
  std::erase_if(open_, [&](Order& order) {
    judge(sight, &order);
    if (!order.open.empty()) return false;
    const bool parks = order.ask == DaemonAsk::kPark;
    OrderResult result{order.caller.client, wire::make_reply(order.ask, wire::Verdict::kGranted),
                       ""};
    result.reply.moved = order.moved;
    result.reply.failed = order.failed;
    result.reply.bytes = order.bytes;
    result.line = std::string(parks ? "parked" : "restored") + " job " + order.job + ": " +
                  host::format_bytes(order.bytes) + ", asked by " + order.caller.name;
    if (order.failed != 0) {
      result.line += "; " + std::to_string(order.failed) + " processes were not moved";
    }
    put_text(result.line, &result.reply);
    results.push_back(result);
    return true;
  });
  return results;
}

}  // namespace vram::daemon
