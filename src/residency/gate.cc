#include "residency/gate.h"

#include <errno.h>
#include <linux/futex.h>
#include <pthread.h>
#include <sched.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include <climits>

#include "base/clock.h"

namespace vram::residency {
namespace {

// How long a thread waits at a closing gate before it opens it: work on a card that needs a call to
// come to its end would otherwise never do so.
constexpr std::uint64_t kPatience_us = 2'000'000;
constexpr std::uint64_t kLook_us = 20'000;

pthread_once_t once = PTHREAD_ONCE_INIT;
pthread_key_t key;
bool have_key = false;

void sleep_on(std::atomic<std::uint32_t>& word, std::uint32_t seen, std::uint64_t us) {
  const timespec most{static_cast<time_t>(us / 1'000'000),
                      static_cast<long>(us % 1'000'000 * 1'000)};
  (void)syscall(SYS_futex, &word, FUTEX_WAIT_PRIVATE, seen, &most, nullptr, 0);
}

void wake_all(std::atomic<std::uint32_t>& word) {
  (void)syscall(SYS_futex, &word, FUTEX_WAKE_PRIVATE, INT_MAX, nullptr, nullptr, 0);
}

}  // namespace

constinit std::atomic<bool> Gate::up_{false};
constinit std::atomic<std::uint32_t> Gate::state_{kOpen};
void (*Gate::wanted_)() = nullptr;
constinit Gate::Seat Gate::seats_[kSeats] = {};
constinit thread_local Gate::Seat* Gate::seat_ = nullptr;

void Gate::make_key() {
  have_key = pthread_key_create(&key, leave_seat) == 0;
  (void)pthread_atfork(nullptr, nullptr, forget_others);
}

void Gate::put_up(void (*wanted)()) {
  pthread_once(&once, make_key);
  base::KernelBarrier::prepare();
  wanted_ = wanted;
  up_.store(true, std::memory_order_release);
}

// A thread ends: whatever it was inside of is over.
void Gate::leave_seat(void* of_thread) {
  Seat* const seat = static_cast<Seat*>(of_thread);
  seat_ = nullptr;
  seat->word.fetch_and(~kDepth, std::memory_order_release);
  seat->taken.store(false, std::memory_order_release);
}

// In a forked child: the other threads are not there.
void Gate::forget_others() {
  for (Seat& seat : seats_) {
    if (&seat == seat_ && seat_ != seats_) continue;
    seat.word.fetch_and(~kDepth, std::memory_order_relaxed);
    seat.taken.store(false, std::memory_order_relaxed);
  }
  state_.store(kOpen, std::memory_order_relaxed);
  up_.store(false, std::memory_order_relaxed);
}

void Gate::take_seat() {
  seat_ = seats_;
  for (unsigned i = 1; i < kSeats && have_key; ++i) {
    Seat& seat = seats_[i];
    if (seat.taken.load(std::memory_order_relaxed) ||
        seat.taken.exchange(true, std::memory_order_acq_rel)) {
      continue;
    }
    if (pthread_setspecific(key, &seat) == 0) {
      seat_ = &seat;
    } else {
      seat.taken.store(false, std::memory_order_release);
    }
    return;
  }
}

// Of those who share a seat, calls inside calls are not told apart from others.
void Gate::enter_slowly() {
  const int saved = errno;
  if (seat_ == nullptr) take_seat();
  if (seat_ != seats_) {
    enter();
  } else {
    seats_[0].word.fetch_add(kPass + 1, std::memory_order_seq_cst);
    if (state_.load(std::memory_order_seq_cst) != kOpen) wait_outside(seats_[0]);
  }
  errno = saved;
}

void Gate::leave_shared() { seats_[0].word.fetch_sub(1, std::memory_order_release); }

bool Gate::try_enter() {
  const int saved = errno;
  if (seat_ == nullptr) take_seat();
  bool inside = false;
  if (seat_ != seats_) {
    inside = step_in(*seat_, seat_->word.load(std::memory_order_relaxed));
  } else {
    seats_[0].word.fetch_add(kPass + 1, std::memory_order_seq_cst);
    inside = state_.load(std::memory_order_seq_cst) == kOpen;
  }
  if (!inside) leave();
  errno = saved;
  return inside;
}

std::uint64_t Gate::passes() {
  std::uint64_t sum = 0;
  for (const Seat& seat : seats_) sum += seat.word.load(std::memory_order_relaxed) / kPass;
  return sum;
}

// Comes back inside.
void Gate::wait_outside(Seat& seat) {
  const int saved = errno;
  const std::uint64_t start = base::now_us();
  for (;;) {
    seat.word.fetch_sub(1, std::memory_order_release);
    for (std::uint32_t state = state_.load(std::memory_order_acquire); state != kOpen;
         state = state_.load(std::memory_order_acquire)) {
      if (wanted_ != nullptr) wanted_();
      if (state == kClosing && base::now_us() - start >= kPatience_us) {
        if (state_.compare_exchange_strong(state, kOpen, std::memory_order_acq_rel)) {
          wake_all(state_);
        }
        continue;
      }
      sleep_on(state_, state, kLook_us);
    }
    seat.word.fetch_add(1, std::memory_order_seq_cst);
    if (state_.load(std::memory_order_seq_cst) == kOpen) break;
  }
  errno = saved;
}

bool Gate::somebody_is_inside() {
  for (const Seat& seat : seats_) {
    if ((seat.word.load(std::memory_order_acquire) & kDepth) != 0) return true;
  }
  return false;
}

bool Gate::close(std::uint64_t most_us) {
  state_.store(kClosing, std::memory_order_seq_cst);
  if (base::KernelBarrier::is_available()) base::KernelBarrier::make();
  const std::uint64_t start = base::now_us();
  while (somebody_is_inside()) {
    if (state_.load(std::memory_order_acquire) == kOpen) return false;
    if (base::now_us() - start >= most_us) {
      open();
      return false;
    }
    sched_yield();
  }
  return state_.load(std::memory_order_acquire) == kClosing;
}

bool Gate::shut() {
  std::uint32_t closing = kClosing;
  return state_.compare_exchange_strong(closing, kShut, std::memory_order_acq_rel);
}

void Gate::open() {
  state_.store(kOpen, std::memory_order_release);
  wake_all(state_);
}

}  // namespace vram::residency
