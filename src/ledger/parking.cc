#include "ledger/parking.h"

#include <climits>

namespace vram::ledger {
namespace {

const std::uint32_t* futex_of(const std::atomic<std::uint32_t>& word) {
  return reinterpret_cast<const std::uint32_t*>(&word);
}

}  // namespace

MoveRequest ask(wire::Parking& parking, Move move) {
  std::uint32_t before = parking.asked.load(std::memory_order_relaxed);
  MoveRequest request{};
  do {
    const std::uint32_t number = (before >> 1) + 1;
    // Never 0, which means that nothing was ever asked.
    request.word = number << 1 == 0 ? 2 : number << 1;
    request.word |= static_cast<std::uint32_t>(move);
  } while (!parking.asked.compare_exchange_weak(before, request.word, std::memory_order_acq_rel));
  ring(parking);
  return request;
}

// Numbers go round; half of them lie ahead.
bool is_answered(const wire::Parking& parking, const MoveRequest& request) {
  const std::uint32_t answered = parking.answered.load(std::memory_order_acquire) >> 1;
  return ((answered - (request.word >> 1)) & 0x7fffffffu) < 0x40000000u;
}

void wait_for_answer(const wire::Parking& parking, const World& world, std::uint32_t us) {
  const std::uint32_t seen = parking.answered.load(std::memory_order_acquire);
  if (seen == parking.asked.load(std::memory_order_acquire)) return;
  world.sleep(futex_of(parking.answered), seen, us);
}

// Request numbers go on: whoever still waits for the last owner finds that dealt with, and sees by
// the slot that somebody else sits there.
void start_anew(wire::Parking& parking) {
  parking.place.store(wire::Place::kNone, std::memory_order_relaxed);
  parking.refusal.store(wire::Refusal::kNone, std::memory_order_relaxed);
  parking.times.store(0, std::memory_order_relaxed);
  parking.bytes.store(0, std::memory_order_relaxed);
  parking.moved.store(0, std::memory_order_relaxed);
  parking.move_us.store(0, std::memory_order_relaxed);
  parking.since_ns.store(0, std::memory_order_relaxed);
  parking.idle_ns.store(0, std::memory_order_relaxed);
  parking.pinned.store(0, std::memory_order_relaxed);
  parking.answered.store(parking.asked.load(std::memory_order_acquire), std::memory_order_release);
  wake(futex_of(parking.answered), INT_MAX);
}

MoveRequest open_request(const wire::Parking& parking) {
  const std::uint32_t asked = parking.asked.load(std::memory_order_acquire);
  return {asked == parking.answered.load(std::memory_order_relaxed) ? 0 : asked};
}

void answer(wire::Parking& parking, const MoveRequest& request, wire::Refusal refusal) {
  parking.refusal.store(refusal, std::memory_order_relaxed);
  parking.answered.store(request.word, std::memory_order_release);
  wake(futex_of(parking.answered), INT_MAX);
}

void ring(wire::Parking& parking) {
  parking.bell.fetch_add(1, std::memory_order_acq_rel);
  wake(futex_of(parking.bell), INT_MAX);
}

void wait_at_bell(const wire::Parking& parking, const World& world, std::uint32_t heard,
                  std::uint32_t us) {
  world.sleep(futex_of(parking.bell), heard, us);
}

}  // namespace vram::ledger
