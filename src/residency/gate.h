#pragma once

// What every call that may touch device memory passes, so that memory can be moved while none is
// under way.
//
// Model. A call says that it is inside, and looks whether the gate is open; who shuts it says so,
// and looks whether anybody is inside. The calls pay two plain stores and two loads for that, and
// no lock: the barrier between saying and looking is the kernel's (base/kernel_barrier.h). A call
// that finds the gate shut waits outside.
//
// Shutting has two steps. While it is closing, work that was submitted before may still run, and
// may depend on a call that now waits outside; so whoever waits there for long opens it again, and
// who was closing it is told. Once it is shut, only the one who shut it opens it.
//
// Threads: any. In a forked child the gate is open and nobody is inside.

#include <atomic>
#include <cstdint>

#include "base/kernel_barrier.h"

namespace vram::residency {

class Gate {
 public:
  // Once, before the first call passes. `wanted` is called by a thread that has to wait outside,
  // also while the gate is closing; it may be called often.
  static void put_up(void (*wanted)());
  static bool is_up() { return up_.load(std::memory_order_relaxed); }

  // Around a call; calls may be nested. errno is kept.
  static void enter() {
    Seat* const seat = seat_;
    if (seat <= seats_) return enter_slowly();
    if (!step_in(*seat, seat->word.load(std::memory_order_relaxed))) wait_outside(*seat);
  }
  static void leave() {
    Seat* const seat = seat_;
    if (seat <= seats_) return leave_shared();
    const std::uint64_t word = seat->word.load(std::memory_order_relaxed);
    seat->word.store(word - 1, std::memory_order_release);
  }
  // The same for a call that is made at once, and leaves by what it got: nothing in between calls
  // anything else of ours, nor do these: always inlined, they leave the call's arguments in their
  // registers. Null: it takes more than a look, and the call is not inside.
  struct Inside {
    std::atomic<std::uint64_t>* word;
    std::uint64_t before;
  };
  [[nodiscard, gnu::always_inline]] static Inside enter_quickly() {
    Seat* const seat = seat_;
    if (seat <= seats_) [[unlikely]]
      return {nullptr, 0};
    const std::uint64_t word = seat->word.load(std::memory_order_relaxed);
    const Inside inside{&seat->word, word + kPass};
    if (step_in(*seat, word)) [[likely]]
      return inside;
    leave(inside);
    return {nullptr, 0};
  }
  [[gnu::always_inline]] static void leave(const Inside& inside) {
    inside.word->store(inside.before, std::memory_order_release);
  }
  // The same for what can be left undone: false, without waiting, where the gate is not open.
  [[nodiscard]] static bool try_enter();

  // Calls that have passed, ever, of all threads; one under way counts. Grows, and may go round.
  [[nodiscard]] static std::uint64_t passes();

  // By one thread, which is not inside. True: nobody is inside, and whoever comes waits. False:
  // somebody stayed inside for `most_us`, or grew impatient outside; the gate is open.
  [[nodiscard]] static bool close(std::uint64_t most_us);
  // True: it is shut. False: somebody opened it.
  [[nodiscard]] static bool shut();
  static void open();

 private:
  enum State : std::uint32_t { kOpen, kClosing, kShut };
  // A thread's word: how often it has passed, above how deep it is inside. Both are added in one
  // instruction, since their sum fits into 32 bits.
  struct alignas(64) Seat {
    std::atomic<std::uint64_t> word;
    std::atomic<bool> taken;
  };
  static constexpr std::uint64_t kPass = std::uint64_t{1} << 24;
  static constexpr std::uint64_t kDepth = kPass - 1;
  static constexpr unsigned kSeats = 2048;

  // `word` is the seat's. False: the gate is not open. Inside all the same.
  [[nodiscard, gnu::always_inline]] static bool step_in(Seat& seat, std::uint64_t word) {
    seat.word.store(word + kPass + 1, std::memory_order_relaxed);
    if ((word & kDepth) != 0) [[unlikely]]
      return true;
    if (base::KernelBarrier::is_available()) [[likely]] {
      std::atomic_signal_fence(std::memory_order_seq_cst);
    } else {
      std::atomic_thread_fence(std::memory_order_seq_cst);
    }
    return state_.load(std::memory_order_seq_cst) == kOpen;
  }
  static void enter_slowly();
  static void take_seat();
  static void leave_shared();
  static void wait_outside(Seat& seat);
  static void make_key();
  static void leave_seat(void* seat);
  static void forget_others();
  [[nodiscard]] static bool somebody_is_inside();

  static std::atomic<bool> up_;
  static std::atomic<std::uint32_t> state_;
  static void (*wanted_)();
  static Seat seats_[kSeats];                 // the first is shared by threads that found no other
  static constinit thread_local Seat* seat_;  // null: the thread was not here yet
};

// Housekeeping that may touch device memory, for a scope; not while memory is on the move.
class TryThrough {
 public:
  TryThrough() : up_(Gate::is_up()), inside_(!up_ || Gate::try_enter()) {}
  ~TryThrough() {
    if (up_ && inside_) Gate::leave();
  }
  TryThrough(const TryThrough&) = delete;
  TryThrough& operator=(const TryThrough&) = delete;
  explicit operator bool() const { return inside_; }

 private:
  bool up_;
  bool inside_;
};

// A call that may touch device memory, for a scope.
class Through {
 public:
  Through() : through_(Gate::is_up()) {
    if (through_) Gate::enter();
  }
  ~Through() {
    if (through_) Gate::leave();
  }
  Through(const Through&) = delete;
  Through& operator=(const Through&) = delete;

 private:
  bool through_;
};

}  // namespace vram::residency
