// Plays an elastic process: joins the job it is started in, holds memory of its first card, and
// answers requests as it is told.
//
// usage: fake_elastic [--hold MIB] [--ready FILE] [--after MS] [--park ANSWER] [--unpark ANSWER]
// ANSWER: move, slow (half of it at once, the rest after a second), never, die, stuck
// (moves half), wait (says that the card has no room, and never answers), or the number of a
// wire::Refusal. FILE appears when it holds its memory, FILE.asked when it is asked. Runs until it
// is killed.

#include <signal.h>
#include <unistd.h>

#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <string>

#include "base/process_identity.h"
#include "ledger/ledger.h"
#include "ledger/parking.h"
#include "ledger/slots.h"
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
  std::string ready, park = "move", unpark = "move";
};

void touch(const std::string& path, const char* end) {
  if (path.empty()) return;
  FILE* file = std::fopen((path + end).c_str(), "w");
  if (file != nullptr) std::fclose(file);
}

class Process {
 public:
  Process(vram::wire::Job* job, std::uint32_t slot, Script script)
      : account_(job, 0, slot, &vram::ledger::real_world()),
        parking_(job->parking[slot]),
        script_(std::move(script)) {}

  void hold() {
    if (script_.hold == 0) return;
    if (!account_.reserve(script_.hold)) std::exit(97);
    account_.commit(script_.hold);
    parking_.place.store(Place::kCard);
  }

  void serve() {
    for (;;) {
      const std::uint32_t heard = vram::ledger::bell(parking_);
      const MoveRequest request = vram::ledger::open_request(parking_);
      if (request.word != 0 && request.word != left_) {
        usleep(script_.after_ms * 1000);
        deal_with(request);
      } else {
        vram::ledger::wait_at_bell(parking_, vram::ledger::real_world(), heard, 1'000'000);
      }
    }
  }

 private:
  void deal_with(const MoveRequest& request) {
    const bool parks = request.move() == Move::kToHost;
    const std::string& how = parks ? script_.park : script_.unpark;
    const bool refuses = how[0] >= '0' && how[0] <= '9';
    touch(script_.ready, ".asked");
    if (how == "die") raise(SIGKILL);
    if (how == "never" || how == "stuck" || how == "wait") left_ = request.word;
    if (how == "wait") parking_.place.store(Place::kWaiting);
    if (how == "stuck") begin(parks);
    if (left_ == request.word) return;
    if (refuses) {
      const auto refusal = static_cast<Refusal>(std::atoi(how.c_str()));
      if (refusal == Refusal::kCardMemory) parking_.place.store(Place::kWaiting);
      vram::ledger::answer(parking_, request, refusal);
      return;
    }
    if (parks && parking_.place.load() == Place::kWaiting) {
      parking_.place.store(Place::kHost);
      vram::ledger::answer(parking_, request, Refusal::kNone);
      return;
    }
    begin(parks);
    if (how == "slow") usleep(1'000'000);
    end(parks);
    vram::ledger::answer(parking_, request, Refusal::kNone);
  }

  void begin(bool parks) {
    parking_.bytes.store(script_.hold);
    parking_.moved.store(script_.hold / 2);
    parking_.place.store(parks ? Place::kParking : Place::kRestoring);
  }

  void end(bool parks) {
    if (parks) {
      account_.begin_release(script_.hold);
      account_.end_release(script_.hold);
      parking_.times.fetch_add(1);
    } else {
      if (!account_.reserve(script_.hold)) std::exit(97);
      account_.commit(script_.hold);
    }
    parking_.moved.store(0);
    parking_.move_us.store(500'000);
    parking_.place.store(parks ? Place::kHost : Place::kCard);
  }

  vram::ledger::Account account_;
  vram::wire::Parking& parking_;
  Script script_;
  std::uint32_t left_ = 0;  // a request that it never answers
};

Script read_script(int argc, char** argv) {
  Script script;
  for (int i = 1; i + 1 < argc; i += 2) {
    const std::string name = argv[i], value = argv[i + 1];
    if (name == "--hold") script.hold = std::strtoull(value.c_str(), nullptr, 10) * kMiB;
    if (name == "--after") script.after_ms = static_cast<unsigned>(std::atoi(value.c_str()));
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
