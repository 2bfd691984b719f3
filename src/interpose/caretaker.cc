#include "interpose/caretaker.h"

#include <pthread.h>
#include <stdlib.h>
#include <time.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/hold.h"
#include "base/quiet_thread.h"
#include "interpose/elastic.h"
#include "interpose/job.h"
#include "interpose/own_pools.h"
#include "interpose/parking.h"
#include "ledger/parking.h"

namespace vram::interpose {
namespace {

using base::Hold;

constexpr std::uint32_t kRound_us = 1'000'000;
// While a call of the program waits for the card to have room.
constexpr std::uint32_t kHurriedRound_us = 50'000;
constexpr std::size_t kStack = 256 << 10;

pid_t runs_in = 0;  // the process that has the thread
constinit thread_local bool is_caretaker = false;
std::atomic<bool> ended{false};  // the program ends: the thread does nothing more

void wait_for_the_next_round(std::uint32_t us) {
  if (is_elastic()) {
    wire::Parking& parking = own_parking();
    const std::uint32_t heard = ledger::bell(parking);
    if (!has_to_move()) ledger::wait_at_bell(parking, ledger::real_world(), heard, us);
    return;
  }
  const timespec round{us / 1'000'000, static_cast<long>(us % 1'000'000) * 1'000};
  nanosleep(&round, nullptr);
}

void* take_care(void*) {
  // Calls of this thread are ours, not the program's, and no capture of the program minds them.
  const Guard guard;
  is_caretaker = true;
  CUstreamCaptureMode mode = CU_STREAM_CAPTURE_MODE_RELAXED;
  if (driver::real.cuThreadExchangeStreamCaptureMode != nullptr) {
    (void)driver::real.cuThreadExchangeStreamCaptureMode(&mode);
  }
  std::uint64_t decayed = base::now_us();
  for (bool hurried = false;;) {
    wait_for_the_next_round(hurried ? kHurriedRound_us : kRound_us);
    const Hold hold(process().caretaking);
    if (base::now_us() - decayed >= kRound_us && !is_away()) {
      decay_own_pools();
      decayed = base::now_us();
    }
    hurried = is_elastic() && tend_parking();
  }
  return nullptr;
}

// The program ends: the thread stays out of the driver from now on. Never unlocked.
void end() {
  if (runs_in != getpid()) return;
  pthread_mutex_lock(&process().caretaking);
  ended.store(true, std::memory_order_release);
  if (is_elastic()) let_pass_unless_away();
}

}  // namespace

void start_caretaker() {
  const Hold hold(process().starting_caretaker);
  if (runs_in == getpid()) return;
  pthread_t thread;
  if (!base::start_quiet_thread(&thread, base::ThreadEnd::kDetached, kStack, take_care, nullptr)) {
    return;
  }
  // A child of fork inherits the handler, and the parent's number with it.
  if (runs_in == 0) (void)atexit(end);
  runs_in = getpid();
  ended.store(false, std::memory_order_relaxed);
}

void somebody_waits() {
  want_memory();
  if (!ended.load(std::memory_order_acquire)) return ledger::ring(own_parking());
  // Whoever comes first brings it back for all.
  if (pthread_mutex_trylock(&process().restoring) != 0) return;
  (void)tend_parking();
  pthread_mutex_unlock(&process().restoring);
}

bool caretaker_has_ended() { return ended.load(std::memory_order_acquire); }

bool ends_parked() { return caretaker_has_ended() && is_elastic() && is_away(); }

// Once it has ended, others do its work, and the mutex is not theirs.
CaretakerAway::CaretakerAway() {
  if (is_caretaker) pthread_mutex_unlock(&process().caretaking);
}
CaretakerAway::~CaretakerAway() {
  if (is_caretaker) pthread_mutex_lock(&process().caretaking);
}

// Nothing is at work any more when it has ended, and nobody leaves the mutex.
CaretakerAtRest::CaretakerAtRest() : held_(!caretaker_has_ended()) {
  if (held_) pthread_mutex_lock(&process().caretaking);
}
CaretakerAtRest::~CaretakerAtRest() {
  if (held_) pthread_mutex_unlock(&process().caretaking);
}

}  // namespace vram::interpose
