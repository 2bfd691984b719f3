#include "daemon/daemon.h"

#include <sys/signalfd.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <csignal>

#include "base/clock.h"
#include "daemon/asking.h"
#include "daemon/peer.h"
#include "daemon/reply_text.h"
#include "daemon/service.h"
#include "host/limit_text.h"

namespace vram::daemon {
namespace {

using wire::DaemonAsk;
using wire::DaemonReply;
using wire::Verdict;

// While something moves: an answer is noticed within this, a hundredth of what a park of a gigabyte
// and a restore take together.
constexpr int kBusy_ms = 10;
// While jobs wait to be admitted: until another ends, which takes longer.
constexpr int kAdmitting_ms = 100;
// Otherwise: what idles long enough to be parked on its own wish is found within this.
constexpr int kQuiet_ms = 1000;
// The longest a process may wait in one request; it can ask again.
constexpr std::uint32_t kLongest_ms = 60'000;
constexpr std::uint64_t kTellAgain_ns = 1000 * kMs;
// A user's groups may change while the daemon runs.
constexpr std::uint64_t kKnown_ms = 60'000;

// SIGTERM and SIGINT as something to poll for.
int end_signals() {
  sigset_t ends;
  sigemptyset(&ends);
  sigaddset(&ends, SIGTERM);
  sigaddset(&ends, SIGINT);
  sigprocmask(SIG_BLOCK, &ends, nullptr);
  return signalfd(-1, &ends, SFD_CLOEXEC | SFD_NONBLOCK);
}

}  // namespace

const Standings::Known& Standings::look_up(std::uint32_t uid) {
  Known& known = known_[uid];
  if (known.at_ms == 0 || known.at_ms + kKnown_ms < base::now_ms())
    known = {look_up_user(uid), base::now_ms()};
  return known;
}

Standing Standings::of(std::uint32_t uid) { return policy_->of(look_up(uid).user); }
const std::string& Standings::name_of(std::uint32_t uid) { return look_up(uid).user.name; }

Sight see(const std::vector<host::StateFolder>& folders, const probe::Nvml& nvml,
          const std::vector<probe::Card>& known) {
  Sight sight;
  sight.jobs = host::list_jobs(folders.empty() ? host::state_folders() : folders).jobs;
  const auto cards = nvml.cards();
  sight.cards = cards ? *cards : known;
  if (!cards) {
    // Nothing can be given while nobody knows what there is.
    for (probe::Card& card : sight.cards) card.free = 0;
  }
  sight.now_ns = base::boot_ns();
  return sight;
}

Daemon::Daemon(Policy policy, host::Host host, std::vector<host::StateFolder> folders,
               Listener listener, Log log)
    : policy_(std::move(policy)),
      host_(std::move(host)),
      folders_(std::move(folders)),
      listener_(std::move(listener)),
      log_(log),
      standings_(&policy_),
      admissions_(&policy_, [this](std::uint32_t uid) { return standings_.of(uid); }),
      room_(&policy_, &admissions_, [this](std::uint32_t uid) { return standings_.of(uid); }),
      orders_([this](std::uint32_t uid) { return standings_.of(uid); }),
      clients_(listener_.fd()),
      watchdog_ms_(watchdog_ms().value_or(0)) {}

void Daemon::run() {
  survive_cut_files();
  const int ends = end_signals();
  refresh();
  log_.info("ready: " + std::to_string(host_.cards.size()) + " cards, " +
            std::to_string(sight_.jobs.size()) + " jobs, " + policy_.origin());
  notify_service("READY=1");
  for (;;) {
    std::vector<pollfd> waits{{ends, POLLIN, 0}};
    clients_.add_to(&waits);
    if (poll(waits.data(), waits.size(), pause_ms()) < 0 && errno != EINTR) break;
    if (waits[0].revents != 0) break;
    waits.erase(waits.begin());
    const Round round = clients_.round(waits);
    for (const std::uint64_t client : round.gone) forget(client);
    for (const std::string& line : round.lines) log_.info(line);
    if (!round.requests.empty()) refresh();
    for (const Received& received : round.requests) handle(received);
    look();
    keep_alive();
  }
  notify_service("STOPPING=1");
  log_.info("ends; programs go on, and what is parked stays so until it is needed");
  close(ends);
}

void Daemon::refresh() {
  sight_ = see(folders_, *host_.nvml, host_.cards);
  for (const std::string& line : admissions_.look(sight_)) log_.error(line);
  govern();
}

// Jobs that nobody has set a stay limit for, since they came while no daemon ran or are new; and
// those that took memory while theirs was lowered: it stays theirs.
void Daemon::govern() {
  for (host::JobInfo& job : sight_.jobs) {
    for (host::JobDevice& device : job.devices) {
      if (!job.elastic || find_card(sight_, device.card.uuid) == nullptr) continue;
      if (device.stay_limit != 0 && device.fixed <= device.stay_limit) continue;
      const std::uint64_t limit = admissions_.stay_limit_of(sight_, job, device);
      if (write_stay_limit(job, device, limit)) device.stay_limit = limit;
    }
  }
}

// What others may still take without asking is given to nobody before they have lost it: to be
// judged anew afterwards, by what is seen then.
void Daemon::lower_others(const std::string& path, const std::string& uuid) {
  for (const host::JobInfo& other : sight_.jobs) {
    const std::size_t at = device_on(other, uuid);
    if (!other.elastic || other.path == path || at == other.devices.size()) continue;
    const host::JobDevice& device = other.devices[at];
    const std::uint64_t limit = admissions_.stay_limit_of(sight_, other, device);
    if (device.stay_limit > limit) (void)write_stay_limit(other, device, limit);
  }
  refresh();
}

void Daemon::look() {
  refresh();
  admit_waiting();
  const RoomPlan plan = room_.look(sight_);
  for (const std::string& line : plan.lines) log_.info(line);
  for (const RoomDecision& decision : plan.decisions) {
    DaemonReply reply = wire::make_reply(DaemonAsk::kRoom, decision.verdict);
    put_text(decision.text, &reply);
    clients_.answer(decision.number, reply, Clients::Part::kLast);
  }
  for (const MoveOrder& order : plan.moves) carry_out(order);
  tell(orders_.look(sight_));
}

void Daemon::carry_out(const MoveOrder& order) {
  const Found found = find(sight_, order.who);
  if (!found) return;
  if (ask_to_move(*found.job, *found.member, order.move, order.amount)) {
    log_.info(order.line);
  } else {
    log_.error("job " + say_job(*found.job) + " could not be asked: its file is not what it was");
  }
}

void Daemon::tell(const std::vector<OrderResult>& results) {
  for (const OrderResult& result : results) {
    log_.info(result.line);
    clients_.answer(result.client, result.reply, Clients::Part::kLast);
  }
}

void Daemon::forget(std::uint64_t client) {
  room_.drop(client);
  orders_.drop(client);
  std::erase_if(admits_, [&](const Admit& admit) { return admit.client == client; });
}

void Daemon::handle(const Received& received) {
  const wire::DaemonRequest& request = received.request;
  switch (request.ask) {
    case DaemonAsk::kAdmit:
      admits_.push_back({received.client, received.peer.uid, request.job,
                         (request.flags & wire::kAskToWait) != 0, sight_.now_ns, 0, ""});
      return;
    case DaemonAsk::kRoom:
      return handle_room(received);
    case DaemonAsk::kStay:
      return handle_stay(received);
    case DaemonAsk::kStatus:
      return handle_status(received);
    case DaemonAsk::kPark:
    case DaemonAsk::kUnpark:
      break;
  }
  const std::uint32_t uid = received.peer.uid;
  tell(orders_.add(sight_, {received.client, uid, standings_.name_of(uid)}, request));
}

void Daemon::handle_room(const Received& received) {
  const wire::DaemonRequest& request = received.request;
  const Found who = find_peer(sight_, received.peer);
  std::string reason = "this process is in no job that this daemon serves";
  if (who) {
    const std::uint64_t wait_ns = std::uint64_t{std::min(request.timeout_ms, kLongest_ms)} * kMs;
    reason = room_.add(
        sight_, {received.client, key_of(*who.job, *who.member), host::format_uuid(request.uuid),
                 request.bytes, sight_.now_ns, sight_.now_ns + wait_ns});
    log_.debug("job " + say_job(*who.job) + " asks for " + host::format_bytes(request.bytes));
  }
  if (reason.empty()) return;
  DaemonReply reply = wire::make_reply(DaemonAsk::kRoom, Verdict::kNever);
  put_text(reason, &reply);
  clients_.answer(received.client, reply, Clients::Part::kLast);
}

void Daemon::handle_stay(const Received& received) {
  const wire::DaemonRequest& request = received.request;
  const std::string uuid = host::format_uuid(request.uuid);
  Admissions::Stay stay{0, 0, false, "this process is in no job that this daemon serves"};
  Found who;
  const auto judge = [&] {
    who = find_peer(sight_, received.peer);
    if (who) stay = admissions_.judge_stay(sight_, *who.job, uuid, request.bytes);
  };
  judge();
  if (stay.contested) {
    lower_others(who.job->path, uuid);
    judge();
  }
  if (stay.needed != 0) {
    const host::JobDevice& device = who.job->devices[device_on(*who.job, uuid)];
    const std::uint64_t limit = std::max(stay.limit, device.stay_limit);
    admissions_.raise(sight_, *who.job, uuid, stay.needed);
    if (!write_stay_limit(*who.job, device, limit))
      stay = {0, 0, false, "its file is not what it was"};
  }
  DaemonReply reply =
      wire::make_reply(DaemonAsk::kStay, stay.needed != 0 ? Verdict::kGranted : Verdict::kNever);
  put_text(stay.text, &reply);
  clients_.answer(received.client, reply, Clients::Part::kLast);
  if (stay.needed != 0 || !who) return;
  // Programs try again.
  std::uint64_t& told_ns = refused_told_ns_[who.job->path];
  if (told_ns + kTellAgain_ns > sight_.now_ns) return;
  told_ns = sight_.now_ns;
  log_.info("refused job " + say_job(*who.job) + ": " + stay.text);
}

// One packet a card. Of other users' jobs nothing is told but that they are there.
void Daemon::handle_status(const Received& received) {
  const std::uint32_t uid = received.peer.uid;
  const auto shown = [&](const std::string& id) {
    for (const host::JobInfo& job : sight_.jobs) {
      if (job.id == id && (uid == 0 || job.uid == uid)) return id;
    }
    return std::string("other");
  };
  const std::size_t cards = sight_.cards.size();
  for (std::size_t i = 0; i < cards; ++i) {
    const probe::Card& card = sight_.cards[i];
    DaemonReply reply = wire::make_reply(DaemonAsk::kStatus, Verdict::kGranted);
    reply.more = static_cast<std::uint32_t>(cards - 1 - i);
    std::copy(card.uuid_bytes.begin(), card.uuid_bytes.end(), reply.uuid);
    reply.reserves = admissions_.reserves_on(sight_, card.uuid);
    reply.bytes = room_.promised_on(sight_, card.uuid);
    for (const Turn& turn : room_.turns()) {
      if (turn.uuid != card.uuid || reply.job[0] != '\0') continue;
      put_text(shown(turn.holder), reply.job);
      put_text(shown(turn.waiting), reply.waiting);
      const std::uint64_t left_ns = turn.ends_ns > sight_.now_ns ? turn.ends_ns - sight_.now_ns : 0;
      reply.left_ms = static_cast<std::uint32_t>(left_ns / kMs);
    }
    clients_.answer(received.client, reply,
                    i + 1 == cards ? Clients::Part::kLast : Clients::Part::kMore);
  }
}

void Daemon::admit_waiting() {
  // Who matters more first, then who came first; nobody passes one that waits for the same card.
  std::stable_sort(admits_.begin(), admits_.end(), [&](const Admit& a, const Admit& b) {
    return standings_.of(a.uid).priority > standings_.of(b.uid).priority;
  });
  std::vector<std::string> blocked;
  std::erase_if(admits_, [&](Admit& admit) { return try_admit(&admit, &blocked); });
}

// True: it was answered.
bool Daemon::try_admit(Admit* admit, std::vector<std::string>* blocked) {
  const auto found = std::find_if(sight_.jobs.begin(), sight_.jobs.end(), [&](const auto& job) {
    return job.id == admit->job && (job.uid == admit->uid || admit->uid == 0);
  });
  if (found == sight_.jobs.end()) {
    refuse(*admit, "there is no job '" + admit->job + "' of " + standings_.name_of(admit->uid) +
                       " in the folders that this daemon serves");
    return true;
  }
  std::vector<Terms> terms;
  AdmissionAnswer answer = admissions_.judge(sight_, *found, &terms);
  for (const Terms& card : terms) {
    const bool taken = std::find(blocked->begin(), blocked->end(), card.uuid) != blocked->end();
    if (!taken || card.reserve == 0 || answer.verdict != Verdict::kGranted) continue;
    answer = {Verdict::kWaits, "another job waits for the same card, and came first"};
  }
  if (answer.verdict == Verdict::kGranted) {
    for (const Terms& card : terms) {
      if (!admissions_.is_contested(sight_, *found, card)) continue;
      blocked->push_back(card.uuid);
      lower_others(std::string(found->path), card.uuid);
      return false;
    }
    finish_admit(*admit, *found, terms);
    return true;
  }
  if (answer.verdict == Verdict::kNever || !admit->waits) {
    refuse(*admit, answer.text);
    return true;
  }
  for (const Terms& card : terms) blocked->push_back(card.uuid);
  if (admit->told.empty()) {
    log_.info("job " + say_job(*found) + " waits to be admitted: " + answer.text);
    (void)write_waiting(*found);
  }
  if (admit->told == answer.text || admit->told_ns + kTellAgain_ns > sight_.now_ns) return false;
  admit->told = answer.text;
  admit->told_ns = sight_.now_ns;
  DaemonReply reply = wire::make_reply(DaemonAsk::kAdmit, Verdict::kWaits);
  put_text(answer.text, &reply);
  clients_.answer(admit->client, reply, Clients::Part::kMore);
  return false;
}

void Daemon::finish_admit(const Admit& admit, const host::JobInfo& job,
                          const std::vector<Terms>& terms) {
  if (!write_admitted(job, terms)) {
    refuse(admit, "the file of job " + job.id + " is not what it was; start it again");
    return;
  }
  admissions_.admit(job, terms);
  for (const host::JobDevice& device : job.devices) {
    (void)write_stay_limit(job, device, admissions_.stay_limit_of(sight_, job, device));
  }
  std::string reserves;
  for (const Terms& card : terms) {
    if (card.reserve != 0) {
      reserves += (reserves.empty() ? ", reserve " : "+") + host::format_bytes(card.reserve);
    }
  }
  log_.info("admitted job " + say_job(job) + reserves);
  clients_.answer(admit.client, wire::make_reply(DaemonAsk::kAdmit, Verdict::kGranted),
                  Clients::Part::kLast);
}

void Daemon::refuse(const Admit& admit, const std::string& text) {
  log_.info("refused job " + admit.job + " (" + standings_.name_of(admit.uid) + "): " + text);
  DaemonReply reply = wire::make_reply(DaemonAsk::kAdmit, Verdict::kNever);
  put_text(text, &reply);
  clients_.answer(admit.client, reply, Clients::Part::kLast);
}

int Daemon::pause_ms() const {
  int pause = kQuiet_ms;
  if (!admits_.empty()) pause = kAdmitting_ms;
  if (room_.busy() || orders_.busy()) pause = kBusy_ms;
  if (watchdog_ms_ != 0) pause = std::min(pause, static_cast<int>(watchdog_ms_ / 4 + 1));
  return pause;
}

void Daemon::keep_alive() {
  if (watchdog_ms_ != 0 && base::now_ms() - kept_alive_ms_ >= watchdog_ms_ / 4) {
    kept_alive_ms_ = base::now_ms();
    notify_service("WATCHDOG=1");
  }
  std::string status = "STATUS=" + std::to_string(sight_.jobs.size()) + " jobs, " +
                       std::to_string(admits_.size()) + " wait to be admitted";
  if (status == status_) return;
  status_ = std::move(status);
  notify_service(status_);
}

}  // namespace vram::daemon
