// Asks the process of a job to park a part of what it has, as the daemon does, and waits for its
// answer: the number of a wire::Refusal. Ends with 1 when none comes, or nobody is there to ask.
//
// usage: take_part JOB_FILE BYTES
#include <cstdio>
#include <cstdlib>

#include "ledger/parking.h"
#include "ledger/slots.h"
#include "wire/job_file.h"

using namespace vram;

namespace {

constexpr std::uint64_t kMost_ms = 50'000;
constexpr std::uint32_t kLook_us = 100'000;

bool is_alive(const wire::Job& job, std::uint32_t slot) {
  const ledger::Owner owner = ledger::owner_of(job, slot);
  return ledger::occupied(owner.identity) &&
         ledger::real_world().alive(owner.identity, owner.pid_namespace);
}

}  // namespace

int main(int argc, char** argv) {
  if (argc != 3) return 2;
  wire::Job* const job = wire::open_job(argv[1], wire::Access::kWrite).job;
  if (job == nullptr) return 1;
  const ledger::World& world = ledger::real_world();
  std::uint32_t slot = 0;
  while (slot < ledger::slots_used(*job) && !is_alive(*job, slot)) ++slot;
  if (slot == ledger::slots_used(*job)) return 1;
  wire::Parking& parking = job->parking[slot];
  const ledger::MoveRequest request =
      ledger::ask(parking, ledger::Move::kToHost, {std::strtoull(argv[2], nullptr, 10), 0});
  const std::uint64_t deadline = world.now_ms() + kMost_ms;
  while (!ledger::is_answered(parking, request)) {
    if (!is_alive(*job, slot) || world.now_ms() >= deadline) return 1;
    ledger::wait_for_answer(parking, world, kLook_us);
  }
  std::printf("%u\n", static_cast<unsigned>(parking.refusal.load()));
}
