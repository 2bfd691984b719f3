#pragma once

// How a process is asked to move its device memory to the host and back, and how it answers.
//
// A request is a number, what to do, and how much of which device is to be parked, in one word; a
// later one takes the place of an earlier one that was not dealt with yet, and its answer stands
// for both: of two to park, the later asks for no less than the earlier. Nobody waits for a lock:
// who asks may die, and so may who is asked.
//
// Threads: any, in any number of processes; the functions for the process itself by one thread.

#include <cstdint>

#include "ledger/world.h"
#include "wire/job_layout.h"

namespace vram::ledger {

enum class Move : std::uint32_t { kToCard = 0, kToHost = 1 };

// How much is to leave a device; nothing else of the process moves.
struct Amount {
  std::uint64_t bytes = 0;   // at least; 0: all there is, of every device
  std::uint32_t device = 0;  // its place in the job's file
};

struct MoveRequest {
  static constexpr std::uint64_t kUnit = std::uint64_t{2} << 20;  // no card moves less at a time

  std::uint64_t word;  // 0: none; else units << 38 | device << 32 | number << 1 | move
  [[nodiscard]] Move move() const { return static_cast<Move>(word & 1); }
  [[nodiscard]] std::uint32_t number() const { return static_cast<std::uint32_t>(word) >> 1; }
  [[nodiscard]] Amount amount() const {
    return {(word >> 38) * kUnit, static_cast<std::uint32_t>(word >> 32) % wire::kMaxDevices};
  }
};

// Asks, and rings the process's bell.
MoveRequest ask(wire::Parking& parking, Move move, const Amount& amount = {});
// Whether this request, or a later one, was dealt with.
[[nodiscard]] bool is_answered(const wire::Parking& parking, const MoveRequest& request);
// Sleeps until something was dealt with, no longer than `us`.
void wait_for_answer(const wire::Parking& parking, const World& world, std::uint32_t us);

// A new process in the slot: it has not parked anything, and what the last one was asked is not
// asked of it.
void start_anew(wire::Parking& parking);
// The process: what it is asked and has not answered.
[[nodiscard]] MoveRequest open_request(const wire::Parking& parking);
void answer(wire::Parking& parking, const MoveRequest& request, wire::Refusal refusal);
// Wakes the thread of the process that waits at its bell.
void ring(wire::Parking& parking);
// Waits at the bell unless it has rung since it was `heard`; no longer than `us`.
inline std::uint32_t bell(const wire::Parking& parking) {
  return parking.bell.load(std::memory_order_acquire);
}
void wait_at_bell(const wire::Parking& parking, const World& world, std::uint32_t heard,
                  std::uint32_t us);

}  // namespace vram::ledger
