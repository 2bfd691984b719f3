#include "ledger/parking.h"

#include <climits>

namespace vram::ledger {
namespace {

const std::uint32_t* futex_of(const std::atomic<std::uint32_t>& word) {
  return reinterpret_cast<const std::uint32_t*>(&word);
}

constexpr std::uint64_t kMostUnits = (std::uint64_t{1} << 26) - 1;
static_assert(wire::kMaxDevices == 1u << 6);

// The part of a request that its answer repeats: number and move.
std::uint32_t name_in(std::uint64_t word) { return static_cast<std::uint32_t>(word); }

std::uint64_t pack(const Amount& amount) {
  const std::uint64_t units = (amount.bytes + MoveRequest::kUnit - 1) / MoveRequest::kUnit;
  if (units > kMostUnits) return 0;
  return units << 38 | std::uint64_t{amount.device} << 32;
}

// No less than what the request that this one takes the place of asks for.
Amount no_less(const Amount& amount, const MoveRequest& earlier) {
  if (earlier.move() != Move::kToHost) return amount;
  const Amount other = earlier.amount();
  if (amount.bytes == 0 || other.bytes == 0 || amount.device != other.device) return {};
  return amount.bytes > other.bytes ? amount : other;
}

}  // namespace

MoveRequest ask(wire::Parking& parking, Move move, const Amount& amount) {
  std::uint64_t before = parking.asked.load(std::memory_order_relaxed);
  MoveRequest request{};
  do {
    const std::uint32_t number = (name_in(before) >> 1) + 1;
    // Never 0, which means that nothing was ever asked.
    request.word = number << 1 == 0 ? 2 : number << 1;
    request.word |= static_cast<std::uint32_t>(move);
    if (move == Move::kToHost) request.word |= pack(no_less(amount, open_request(parking)));
  } while (!parking.asked.compare_exchange_weak(before, request.word, std::memory_order_acq_rel));
  ring(parking);
  return request;
}

// Numbers go round; half of them lie ahead.
bool is_answered(const wire::Parking& parking, const MoveRequest& request) {
  const std::uint32_t answered = parking.answered.load(std::memory_order_acquire) >> 1;
  return ((answered - request.number()) & 0x7fffffffu) < 0x40000000u;
}

void wait_for_answer(const wire::Parking& parking, const World& world, std::uint32_t us) {
  const std::uint32_t seen = parking.answered.load(std::memory_order_acquire);
  if (seen == name_in(parking.asked.load(std::memory_order_acquire))) return;
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
  parking.answered.store(name_in(parking.asked.load(std::memory_order_acquire)),
                         std::memory_order_release);
  wake(futex_of(parking.answered), INT_MAX);
}

MoveRequest open_request(const wire::Parking& parking) {
  const std::uint64_t asked = parking.asked.load(std::memory_order_acquire);
  return {name_in(asked) == parking.answered.load(std::memory_order_relaxed) ? 0 : asked};
}

void answer(wire::Parking& parking, const MoveRequest& request, wire::Refusal refusal) {
  parking.refusal.store(refusal, std::memory_order_relaxed);
  parking.answered.store(name_in(request.word), std::memory_order_release);
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
