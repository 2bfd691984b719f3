// Plays an elastic process: joins the job it is started in, holds memory of its first card, and
// answers requests as it is told.
//
// usage: fake_elastic [--hold MIB] [--ready FILE] [--after MS] [--park ANSWER] [--unpark ANSWER]
//                     [--idle SECONDS] [--grow MIB] [--work MS]
// --idle: its work ended so long ago; otherwise it is at work. --grow: when FILE.go appears it
// takes so much more, asking the daemon for it, and writes to FILE.grown what came of it and when.
// --work: is at work all the time, and asks for its memory whenever it is parked; a move takes MS;
// FILE.log has a line for each move: in or out, and when (ms). With FAKE_NVML_TAKEN in the
// environment, what it holds is taken of the card that fake_nvml shows; a card that has no room
// ends the process with status 96. ANSWER: move, slow (half of it at once, the rest after a
// second), never, die, stuck (moves half), wait (says that the card has no room, and never
// answers), or the number of a wire::Refusal. FILE appears when it holds its memory, FILE.asked
// when it is asked. Runs until it is killed.

#include <fcntl.h>
#include <signal.h>
#include <sys/file.h>
#include <time.h>
#include <unistd.h>

#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <string>

#include "base/process_identity.h"
#include "ledger/ledger.h"
#include "ledger/parking.h"
#include "ledger/slots.h"
#include "wire/daemon_client.h"
#include "wire/job_file.h"

namespace {

using vram::ledger::Move;
using vram::ledger::MoveRequest;
using vram::wire::Place;
using vram::wire::Refusal;

constexpr std::uint64_t kMiB = std::uint64_t{1} << 20;

struct Script {
  std::uint64_t hold = 64 * kMiB;
  unsigned after_ms = 0;
  unsigned work_ms = 0;  // 0: not all the time
  std::uint64_t grow = 0;
  long idle_s = -1;  // -1: at work
  std::string ready, park = "move", unpark = "move";
};

void touch(const std::string& path, const char* end) {
  if (path.empty()) return;
  FILE* file = std::fopen((path + end).c_str(), "w");
  if (file != nullptr) std::fclose(file);
}

std::uint64_t now_ns() {
  timespec now{};
  clock_gettime(CLOCK_BOOTTIME, &now);
  return static_cast<std::uint64_t>(now.tv_sec) * 1'000'000'000 +
         static_cast<std::uint64_t>(now.tv_nsec);
}

std::uint64_t read_number(const std::string& path) {
  unsigned long long number = 0;
  FILE* file = std::fopen(path.c_str(), "r");
  if (file == nullptr) return 0;
  if (std::fscanf(file, "%llu", &number) != 1) number = 0;
  std::fclose(file);
  return number;
}

void append(const std::string& path, const std::string& line) {
  FILE* file = std::fopen(path.c_str(), "a");
  if (file == nullptr) return;
  std::fprintf(file, "%s\n", line.c_str());
  std::fclose(file);
}

// The card that fake_nvml shows: 24 GiB, shared by all.
class FakeCard {
 public:
  // False: no room.
  static bool set(std::uint64_t bytes) {
    const char* folder = std::getenv("FAKE_NVML_TAKEN");
    if (folder == nullptr) return true;
    const int lock = open(folder, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    flock(lock, LOCK_EX);
    std::uint64_t others = 0;
    const std::string self = std::to_string(getpid());
    for (const auto& entry : std::filesystem::directory_iterator(folder)) {
      const std::string name = entry.path().filename();
      if (name != self && kill(std::atoi(name.c_str()), 0) == 0)
        others += read_number(entry.path());
    }
    const bool fits = others + bytes <= std::uint64_t{24} << 30;
    if (fits) {
      FILE* file = std::fopen((std::string(folder) + "/" + self).c_str(), "w");
      std::fprintf(file, "%llu", static_cast<unsigned long long>(bytes));
      std::fclose(file);
    }
    close(lock);
    return fits;
  }
};

class Process {
 public:
  Process(vram::wire::Job* job, std::uint32_t slot, Script script)
      : job_(job),
        account_(vram::ledger::Account(job, 0, slot, &vram::ledger::real_world()).moving()),
        parking_(job->parking[slot]),
        script_(std::move(script)) {}

  void hold() {
    if (script_.hold == 0) return;
    take(script_.hold);
    if (script_.idle_s >= 0) {
      // A host that started later than that has been idle since.
      const auto idle_ns = static_cast<std::uint64_t>(script_.idle_s) * 1'000'000'000;
      parking_.idle_ns.store(now_ns() > idle_ns ? now_ns() - idle_ns : 1);
    }
    arrive(Place::kCard);
  }

  void serve() {
    for (;;) {
      const std::uint32_t heard = vram::ledger::bell(parking_);
      const MoveRequest request = vram::ledger::open_request(parking_);
      if (request.word != 0 && request.word != left_) {
        usleep(script_.after_ms * 1000);
        deal_with(request);
      } else {
        vram::ledger::wait_at_bell(parking_, vram::ledger::real_world(), heard, 20'000);
      }
      if (script_.grow != 0 && access((script_.ready + ".go").c_str(), F_OK) == 0) grow();
      if (script_.work_ms != 0 && parking_.place.load() != Place::kCard) come_back();
    }
  }

 private:
  void take(std::uint64_t bytes) {
    if (!account_.may_stay(bytes)) (void)ask(vram::wire::DaemonAsk::kStay, bytes);
    if (!account_.reserve(bytes)) std::exit(97);
    if (!FakeCard::set(on_card_ + bytes)) {
      append(script_.ready + ".full", "no room");
      std::exit(96);
    }
    account_.commit(bytes);
    on_card_ += bytes;
  }

  void give_back(std::uint64_t bytes) {
    account_.begin_release(bytes);
    on_card_ -= bytes;
    (void)FakeCard::set(on_card_);
    account_.end_release(bytes);
  }

  void arrive(Place place) {
    parking_.since_ns.store(now_ns());
    parking_.place.store(place);
    if (script_.work_ms == 0) return;
    append(script_.ready + ".log",
           (place == Place::kCard ? "in " : "out ") + std::to_string(now_ns() / 1'000'000));
  }

  vram::wire::RoomAnswer ask(vram::wire::DaemonAsk what, std::uint64_t bytes) {
    using vram::wire::RoomAnswer;
    const auto answer =
        vram::wire::ask_for_room(job_->header.daemon_path, what, job_->device[0].uuid, bytes, 1000);
    if (answer == RoomAnswer::kNobody) usleep(50'000);
    return answer;
  }

  void grow() {
    using vram::wire::RoomAnswer;
    const std::uint64_t since_ms = now_ns() / 1'000'000;
    const RoomAnswer answer = ask(vram::wire::DaemonAsk::kRoom, script_.grow);
    if (began_ms_ == 0) began_ms_ = since_ms;
    if (answer == RoomAnswer::kGranted) {
      take(script_.grow);
      script_.hold += script_.grow;
    }
    const bool decided = answer == RoomAnswer::kGranted || answer == RoomAnswer::kNever;
    if (!decided) {
      append(script_.ready + ".later", "later");
      return;
    }
    script_.grow = 0;
    append(script_.ready + ".grown",
           std::string(answer == RoomAnswer::kGranted ? "granted " : "never ") +
               std::to_string(now_ns() / 1'000'000 - began_ms_));
  }

  void come_back() {
    parking_.place.store(Place::kWaiting);
    if (ask(vram::wire::DaemonAsk::kRoom, away_) != vram::wire::RoomAnswer::kGranted) return;
    begin(Place::kRestoring, away_);
    usleep(script_.work_ms * 1000);
    take_back();
  }

  void deal_with(const MoveRequest& request) {
    const bool parks = request.move() == Move::kToHost;
    const std::string& how = parks ? script_.park : script_.unpark;
    const bool refuses = how[0] >= '0' && how[0] <= '9';
    touch(script_.ready, ".asked");
    if (how == "die") raise(SIGKILL);
    if (how == "never" || how == "stuck" || how == "wait") left_ = request.word;
    if (how == "wait") parking_.place.store(Place::kWaiting);
    const std::uint64_t bytes = parks ? to_give(request.amount().bytes) : away_;
    const Place on_the_way = parks ? Place::kParking : Place::kRestoring;
    if (how == "stuck") begin(on_the_way, bytes);
    if (left_ == request.word) return;
    if (refuses) {
      const auto refusal = static_cast<Refusal>(std::atoi(how.c_str()));
      if (refusal == Refusal::kCardMemory) parking_.place.store(Place::kWaiting);
      vram::ledger::answer(parking_, request, refusal);
      return;
    }
    if (parks && bytes == 0) {
      parking_.place.store(Place::kHost);
      vram::ledger::answer(parking_, request, Refusal::kNone);
      return;
    }
    begin(on_the_way, bytes);
    if (how == "slow") usleep(1'000'000);
    usleep(script_.work_ms * 1000);
    if (parks) {
      give(bytes);
    } else {
      take_back();
    }
    vram::ledger::answer(parking_, request, Refusal::kNone);
  }

  // Of the amount asked for, 0 for everything.
  std::uint64_t to_give(std::uint64_t asked) const {
    const std::uint64_t left = script_.hold - away_;
    return asked == 0 || asked > left ? left : asked;
  }

  void begin(Place on_the_way, std::uint64_t bytes) {
    parking_.bytes.store(on_the_way == Place::kParking ? away_ + bytes : away_);
    parking_.moved.store(bytes / 2);
    parking_.place.store(on_the_way);
  }

  void give(std::uint64_t bytes) {
    give_back(bytes);
    away_ += bytes;
    parking_.times.fetch_add(1);
    end(Place::kHost);
  }

  void take_back() {
    take(away_);
    away_ = 0;
    end(Place::kCard);
  }

  void end(Place place) {
    parking_.moved.store(0);
    parking_.move_us.store(script_.work_ms != 0 ? script_.work_ms * 1000 : 500'000);
    arrive(place);
  }

  vram::wire::Job* job_;
  vram::ledger::Account account_;
  vram::wire::Parking& parking_;
  Script script_;
  std::uint64_t left_ = 0;  // a request that it never answers
  std::uint64_t on_card_ = 0;
  std::uint64_t away_ = 0;
  std::uint64_t began_ms_ = 0;  // to ask for more
};

Script read_script(int argc, char** argv) {
  Script script;
  for (int i = 1; i + 1 < argc; i += 2) {
    const std::string name = argv[i], value = argv[i + 1];
    if (name == "--hold") script.hold = std::strtoull(value.c_str(), nullptr, 10) * kMiB;
    if (name == "--after") script.after_ms = static_cast<unsigned>(std::atoi(value.c_str()));
    if (name == "--grow") script.grow = std::strtoull(value.c_str(), nullptr, 10) * kMiB;
    if (name == "--idle") script.idle_s = std::atol(value.c_str());
    if (name == "--work") script.work_ms = static_cast<unsigned>(std::atoi(value.c_str()));
    if (name == "--ready") script.ready = value;
    if (name == "--park") script.park = value;
    if (name == "--unpark") script.unpark = value;
  }
  return script;
}

}  // namespace

int main(int argc, char** argv) {
  using namespace vram;
  const char* path = std::getenv("VRAM_JOB");
  wire::Job* job = path != nullptr ? wire::open_job(path, wire::Access::kWrite).job : nullptr;
  if (job == nullptr || job->header.pools != wire::Pools::kElastic) return 98;
  const ledger::Owner self{base::identity_of(getpid()), base::own_pid_namespace()};
  const std::uint32_t slot = ledger::claim_slot(*job, self, ledger::real_world());
  if (slot == ledger::kNoSlot) return 99;
  std::strncpy(job->process[slot].command, argv[0], sizeof job->process[slot].command - 1);
  const Script script = read_script(argc, argv);
  Process process(job, slot, script);
  process.hold();
  touch(script.ready, "");
  process.serve();
}
