// `vram park` and `vram unpark`: every process of the jobs is asked at once, then waited for.

#include <signal.h>
#include <unistd.h>

#include <algorithm>
#include <csignal>
#include <cstdio>

#include "cli/commands.h"
#include "cli/json.h"
#include "cli/parking_text.h"
#include "host/daemon_socket.h"
#include "host/duration.h"
#include "host/job_list.h"
#include "host/job_pages.h"
#include "host/limit_text.h"
#include "ledger/parking.h"
#include "ledger/world.h"
#include "probe/process.h"
#include "wire/daemon_client.h"

namespace vram::cli {
namespace {

using ledger::Move;
using wire::Place;
using wire::Refusal;

// An answer is noticed at once; this is how soon a death and progress are.
constexpr std::uint64_t kLook_ms = 100;
// How much later than its own limit the daemon may answer.
constexpr std::uint32_t kDaemonGrace_ms = 5000;

enum class Outcome : std::uint8_t {
  kOpen,  // asked, and waited for
  kMoved,
  kAlready,    // was where it should be
  kNothing,    // it has nothing that could be moved
  kRefused,    // see the refusal
  kOvertaken,  // somebody else asked for the opposite meanwhile
  kNoAnswer,   // not in time
  kLeft,       // not until whoever waited was told to stop
  kEnded,
};

// One process: what was asked of it, and what came of it. Refers to the job's pages.
struct Asked {
  const JobInfo* job;
  const JobMember* member;
  wire::Job* pages;
  Move move;
  ledger::MoveRequest request{};
  Place before = Place::kNone;
  std::uint32_t times_before = 0;
  Outcome outcome = Outcome::kOpen;
  Place place = Place::kNone;        // when it was looked at last
  Refusal refusal = Refusal::kNone;  // of kRefused
  std::uint64_t bytes = 0;           // that are moved, as far as is known
  std::uint64_t us = 0;              // what the move took

  wire::Parking& parking() const { return pages->parking[member->slot]; }
  bool is_there(Place at) const {
    if (move == Move::kToCard) return at == Place::kCard;
    return at == Place::kHost || at == Place::kWaiting;
  }
  bool failed() const { return outcome >= Outcome::kRefused; }
};

Asked ask(const JobInfo& job, const JobMember& member, wire::Job& pages, Move move) {
  Asked asked{&job, &member, &pages, move};
  wire::Parking& parking = asked.parking();
  asked.before = asked.place = parking.place.load();
  asked.times_before = parking.times.load();
  if (asked.before != Place::kCard) asked.bytes = parking.bytes.load();
  if (!(ledger::owner_of(pages, member.slot) == member.owner)) {
    asked.outcome = Outcome::kEnded;
  } else if (asked.before == Place::kNone) {
    asked.outcome = Outcome::kNothing;
  } else if (asked.is_there(asked.before) && asked.before != Place::kWaiting &&
             (move == Move::kToCard || movable_of(member) == 0) &&
             ledger::open_request(parking).word == 0) {
    asked.outcome = Outcome::kAlready;
  } else {
    asked.request = ledger::ask(parking, move);
  }
  return asked;
}

Outcome judge(const Asked& asked, bool parked_since) {
  // What was there before stays there when the rest is refused.
  const bool refused = asked.move == Move::kToHost && asked.refusal > Refusal::kNothing;
  if (asked.is_there(asked.place) && (parked_since || !refused)) {
    const bool was_there = asked.is_there(asked.before) && !parked_since;
    return was_there ? Outcome::kAlready : Outcome::kMoved;
  }
  // Parked, and its program has asked for its memory since.
  if (asked.move == Move::kToHost && parked_since) return Outcome::kMoved;
  if (asked.refusal == Refusal::kNothing || asked.place == Place::kNone) return Outcome::kNothing;
  return asked.refusal != Refusal::kNone ? Outcome::kRefused : Outcome::kOvertaken;
}

void look(Asked* asked) {
  const wire::Parking& parking = asked->parking();
  const ledger::Owner owner = ledger::owner_of(*asked->pages, asked->member->slot);
  if (!(owner == asked->member->owner)) {
    asked->outcome = Outcome::kEnded;
    return;
  }
  // Before the answer is looked for: who answers and dies then has answered.
  const bool alive = ledger::real_world().alive(owner.identity, owner.pid_namespace);
  const bool answered = ledger::is_answered(parking, asked->request);
  asked->place = parking.place.load();
  if (asked->place != Place::kCard) asked->bytes = std::max(asked->bytes, parking.bytes.load());
  if (!answered) {
    if (!alive) asked->outcome = Outcome::kEnded;
    return;
  }
  asked->refusal = parking.refusal.load();
  asked->us = parking.move_us.load();
  asked->outcome = judge(*asked, parking.times.load() != asked->times_before);
}

// On a terminal, one line that is written over as long as it lasts.
class Progress {
 public:
  explicit Progress(Move move) : move_(move), shown_(isatty(STDERR_FILENO) != 0) {}
  ~Progress() {
    if (shown_ && written_) std::fputs("\r\x1b[K", stderr);
  }
  Progress(const Progress&) = delete;
  Progress& operator=(const Progress&) = delete;

  void show(const std::vector<Asked>& all) {
    if (!shown_) return;
    std::uint64_t bytes = 0, moved = 0, open = 0;
    for (const Asked& asked : all) {
      if (asked.request.word == 0) continue;
      const bool is_open = asked.outcome == Outcome::kOpen;
      const bool moves = asked.place == Place::kParking || asked.place == Place::kRestoring;
      open += is_open ? 1 : 0;
      bytes += asked.bytes;
      if (is_open && moves) moved += std::min(asked.parking().moved.load(), asked.bytes);
      if (asked.outcome == Outcome::kMoved) moved += asked.bytes;
    }
    const std::string amount = format_bytes(moved) + " / " + format_bytes(bytes);
    const std::string waits =
        "waiting for " + std::to_string(open) + (open == 1 ? " process" : " processes");
    const char* verb = move_ == Move::kToHost ? "parking " : "restoring ";
    std::fprintf(stderr, "\r\x1b[K%s", (bytes != 0 ? verb + amount : waits).c_str());
    std::fflush(stderr);
    written_ = true;
  }

 private:
  Move move_;
  bool shown_;
  bool written_ = false;
};

volatile std::sig_atomic_t stopped_by = 0;

// While it lives, Ctrl-C and kill end the waiting and not the command, which tells what stands.
class Stoppable {
 public:
  Stoppable() {
    struct sigaction note {};
    note.sa_handler = [](int signal) { stopped_by = signal; };
    for (std::size_t i = 0; i < kCount; ++i) {
      sigaction(kSignals[i], nullptr, &before_[i]);
      if (before_[i].sa_handler != SIG_IGN) sigaction(kSignals[i], &note, nullptr);
    }
  }
  ~Stoppable() {
    for (std::size_t i = 0; i < kCount; ++i) sigaction(kSignals[i], &before_[i], nullptr);
  }
  Stoppable(const Stoppable&) = delete;
  Stoppable& operator=(const Stoppable&) = delete;

 private:
  static constexpr int kSignals[] = {SIGINT, SIGTERM};
  static constexpr std::size_t kCount = sizeof kSignals / sizeof kSignals[0];
  struct sigaction before_[kCount];
};

void wait_for_all(std::vector<Asked>* all, Move move, std::uint64_t timeout_ms) {
  const ledger::World& world = ledger::real_world();
  const std::uint64_t deadline = world.now_ms() + timeout_ms;
  Progress progress(move);
  for (;;) {
    const Asked* open = nullptr;
    for (Asked& asked : *all) {
      if (asked.outcome == Outcome::kOpen) look(&asked);
      if (asked.outcome == Outcome::kOpen && open == nullptr) open = &asked;
    }
    if (open == nullptr) return;
    const std::uint64_t now = world.now_ms();
    if (now >= deadline || stopped_by != 0) break;
    progress.show(*all);
    const std::uint64_t left_ms = std::min(deadline - now, kLook_ms);
    ledger::wait_for_answer(open->parking(), world, static_cast<std::uint32_t>(left_ms * 1000));
  }
  for (Asked& asked : *all) {
    if (asked.outcome != Outcome::kOpen) continue;
    asked.outcome = stopped_by != 0 ? Outcome::kLeft : Outcome::kNoAnswer;
  }
}

std::string process_text(const Asked& asked) {
  const std::string pid = asked.member->pid ? std::to_string(*asked.member->pid) : "?";
  return pid + " (" + asked.member->program + ")";
}

std::string moved_text(const Asked& asked) {
  std::string text = asked.move == Move::kToHost ? "parked " : "restored ";
  text +=
      format_bytes(asked.bytes) + " of PID " + process_text(asked) + " in " + format_us(asked.us);
  if (asked.us != 0) {
    const double rate = static_cast<double>(asked.bytes) * 1e6 / static_cast<double>(asked.us);
    text += " (" + format_bytes(static_cast<std::uint64_t>(rate)) + "/s)";
  }
  if (asked.is_there(asked.place)) return text;
  return text + "; its program has asked for it since";
}

bool is_stopped(const Asked& asked) {
  if (!asked.member->pid) return false;
  const std::optional<char> state = probe::read_process(*asked.member->pid).state;
  return state == 'T' || state == 't';
}

std::string moved_so_far(const Asked& asked) {
  return format_bytes(asked.parking().moved.load()) + " of " + format_bytes(asked.bytes);
}

bool is_on_the_move(const Asked& asked) {
  return asked.place == Place::kParking || asked.place == Place::kRestoring;
}

std::string take_back_text(const Asked& asked) {
  return std::string("take it back with 'vram ") +
         (asked.move == Move::kToHost ? "unpark " : "park ") + asked.job->id + "'";
}

std::string left_text(const Asked& asked) {
  const std::string process = "process " + process_text(asked);
  const std::string moves =
      is_on_the_move(asked) ? " is on the move (" + moved_so_far(asked) + ")" : "";
  return process + (moves.empty() ? "" : moves + " and") + " stays asked; " + take_back_text(asked);
}

std::string no_answer_text(const Asked& asked, const std::string& timeout) {
  const std::string process = "process " + process_text(asked);
  if (is_stopped(asked)) {
    return process + " is stopped, so it did not answer in " + timeout +
           "; it stays asked, and moves once it goes on: kill -CONT " +
           std::to_string(*asked.member->pid);
  }
  if (asked.place == Place::kWaiting) {
    return explain(Refusal::kCardMemory, asked.move, asked.place, process, asked.bytes);
  }
  const std::string next = "see 'vram ps', or " + take_back_text(asked);
  if (is_on_the_move(asked)) {
    return process + " still moves after " + timeout + " (" + moved_so_far(asked) +
           "), and goes on; " + next;
  }
  return process + " did not answer in " + timeout + ", and stays asked; " + next;
}

std::string text_of(const Asked& asked, const std::string& timeout) {
  const std::string process = "process " + process_text(asked);
  const bool parks = asked.move == Move::kToHost;
  switch (asked.outcome) {
    case Outcome::kMoved:
      return moved_text(asked);
    case Outcome::kAlready:
      return process + (parks ? " is parked already" : " is on the card already");
    case Outcome::kNothing:
      return explain(Refusal::kNothing, asked.move, asked.place, process, 0);
    case Outcome::kRefused:
      return explain(asked.refusal, asked.move, asked.place, process, asked.bytes);
    case Outcome::kOvertaken:
      return process +
             " was asked the opposite by somebody else meanwhile; see 'vram ps' where "
             "its memory is";
    case Outcome::kEnded:
      return process + " ended before it was " + (parks ? "parked" : "restored") +
             "; see 'vram ps' for what is left of job " + asked.job->id;
    case Outcome::kLeft:
      return left_text(asked);
    case Outcome::kOpen:
    case Outcome::kNoAnswer:
      break;
  }
  return no_answer_text(asked, timeout);
}

const char* name_of(Outcome outcome, Move move) {
  switch (outcome) {
    case Outcome::kMoved:
      return move == Move::kToHost ? "parked" : "restored";
    case Outcome::kAlready:
      return "already";
    case Outcome::kNothing:
      return "nothing";
    case Outcome::kRefused:
      return "refused";
    case Outcome::kOvertaken:
      return "overtaken";
    case Outcome::kEnded:
      return "ended";
    case Outcome::kOpen:
    case Outcome::kNoAnswer:
    case Outcome::kLeft:
      break;
  }
  return "no_answer";
}

void print_json(const std::vector<JobInfo>& jobs, const std::vector<Asked>& all) {
  Json list = Json::array();
  for (const JobInfo& job : jobs) {
    Json processes = Json::array();
    for (const Asked& asked : all) {
      if (asked.job != &job) continue;
      const bool moved = asked.outcome == Outcome::kMoved;
      const bool refused = asked.outcome == Outcome::kRefused;
      processes.push_back(
          {{"pid", optional_json(asked.member->pid)},
           {"program", asked.member->program},
           {"outcome", name_of(asked.outcome, asked.move)},
           {"refusal", refused ? optional_json(cli::name_of(asked.refusal)) : Json(nullptr)},
           {"place", optional_json(cli::name_of(asked.place))},
           {"bytes", asked.bytes},
           {"us", moved ? Json(asked.us) : Json(nullptr)}});
    }
    list.push_back({{"job", job.id}, {"processes", processes}});
  }
  std::fputs(dump({{"schema", kJsonSchema}, {"jobs", list}}).c_str(), stdout);
}

void print_text(const std::vector<JobInfo>& jobs, const std::vector<Asked>& all,
                const std::string& timeout) {
  for (const Asked& asked : all) {
    if (!asked.failed()) std::printf("%s\n", text_of(asked, timeout).c_str());
  }
  for (const JobInfo& job : jobs) {
    const bool empty =
        std::none_of(all.begin(), all.end(), [&](const Asked& asked) { return asked.job == &job; });
    if (empty) std::printf("job %s holds nothing that could be moved\n", job.id.c_str());
  }
}

// Every process that was not moved has a line of its own; the last is the command's failure.
Result<Done> tell_failures(const std::vector<Asked>& all, const std::string& timeout) {
  std::vector<std::string> lines;
  for (const Asked& asked : all) {
    if (asked.failed()) lines.push_back(text_of(asked, timeout));
  }
  if (lines.empty()) return Done{};
  for (std::size_t i = 0; i + 1 < lines.size(); ++i) {
    std::fprintf(stderr, "vram: %s\n", lines[i].c_str());
  }
  return Failure{lines.back()};
}

// A job that is not the caller's to write to may be the daemon's to move, where its policy says so.
// Absent: there is no daemon to ask.
std::optional<Result<Done>> move_through_daemon(const std::string& job, Move move,
                                                std::uint64_t timeout_ms) {
  wire::DaemonLine line = wire::call_daemon(host::daemon_socket().c_str());
  if (line.error != wire::DaemonError::kNone) return std::nullopt;
  const bool parks = move == Move::kToHost;
  wire::DaemonRequest request =
      wire::make_request(parks ? wire::DaemonAsk::kPark : wire::DaemonAsk::kUnpark);
  std::snprintf(request.job, sizeof request.job, "%s", job.c_str());
  request.timeout_ms = static_cast<std::uint32_t>(timeout_ms);
  wire::DaemonReply reply{};
  wire::DaemonError error = wire::send_request(line, request);
  if (error == wire::DaemonError::kNone) {
    error = wire::receive_reply(line, request.timeout_ms + kDaemonGrace_ms, &reply);
  }
  wire::hang_up(&line);
  if (error != wire::DaemonError::kNone) {
    return Failure{"vramd did not answer about job " + job +
                   "; see whether it runs, then try again"};
  }
  if (reply.verdict != wire::Verdict::kGranted || reply.failed != 0) return Failure{reply.text};
  std::printf("%s\n", reply.text);
  return Done{};
}

Result<std::vector<JobInfo>> find_jobs(const std::vector<std::string>& names) {
  const JobList list = list_jobs();
  std::vector<JobInfo> jobs;
  for (const std::string& name : names) {
    Result<JobInfo> job = find_job(list, name);
    if (!job) return job.error();
    if (!job->elastic) {
      return Failure{"job " + job->id +
                     " is not elastic, so its memory cannot be moved; start it with 'vram run "
                     "--elastic'"};
    }
    const bool named = std::any_of(jobs.begin(), jobs.end(),
                                   [&](const JobInfo& known) { return known.id == job->id; });
    if (!named) jobs.push_back(std::move(*job));
  }
  return jobs;
}

// As if nobody had caught the signal, so that a shell sees it.
void end_by_signal(const Result<Done>& told) {
  if (!told) std::fprintf(stderr, "vram: %s\n", told.error().message.c_str());
  std::fflush(nullptr);
  raise(stopped_by);
}

Result<Done> move_jobs(const ParkOptions& options, Move move) {
  const Result<std::uint64_t> timeout_ms = parse_duration(options.timeout, "--timeout");
  if (!timeout_ms) return timeout_ms.error();
  const Result<std::vector<JobInfo>> jobs = find_jobs(options.jobs);
  if (!jobs) {
    // One job a command: what happens to several is told by their processes, which are hidden here.
    const bool alone = options.jobs.size() == 1 && !options.json;
    if (!alone || find_job(list_jobs(), options.jobs.front())) return jobs.error();
    const auto moved = move_through_daemon(options.jobs.front(), move, *timeout_ms);
    return moved ? *moved : jobs.error();
  }
  std::vector<JobPages> pages;
  for (const JobInfo& job : *jobs) {
    Result<JobPages> opened = open_for_writing(job);
    if (!opened) return opened.error();
    pages.push_back(std::move(*opened));
  }
  std::vector<Asked> all;
  {
    const Stoppable stoppable;
    for (std::size_t i = 0; i < jobs->size(); ++i) {
      for (const JobMember& member : (*jobs)[i].members) {
        all.push_back(ask((*jobs)[i], member, *pages[i], move));
      }
    }
    wait_for_all(&all, move, *timeout_ms);
  }
  if (options.json) {
    print_json(*jobs, all);
  } else {
    print_text(*jobs, all, options.timeout);
  }
  const Result<Done> told = tell_failures(all, options.timeout);
  if (stopped_by != 0) end_by_signal(told);
  return told;
}

}  // namespace

Result<Done> park_jobs(const ParkOptions& options) { return move_jobs(options, Move::kToHost); }
Result<Done> unpark_jobs(const ParkOptions& options) { return move_jobs(options, Move::kToCard); }

}  // namespace vram::cli
