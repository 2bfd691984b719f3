#include "interpose/parking.h"

#include "base/clock.h"
#include "base/hold.h"
#include "interpose/away.h"
#include "interpose/block.h"
#include "interpose/caretaker.h"
#include "interpose/elastic.h"
#include "interpose/job.h"
#include "interpose/measure.h"
#include "interpose/own_pools.h"
#include "interpose/pins.h"
#include "interpose/room.h"
#include "ledger/parking.h"
#include "residency/gate.h"

namespace vram::interpose {
namespace {

using driver::real;
using ledger::Amount;
using ledger::Move;
using ledger::MoveRequest;
using residency::Gate;
using wire::Place;
using wire::Refusal;

// How long calls of the program may stay inside before the attempt is given up.
constexpr std::uint64_t kUntilAllAreOut_us = 2'000'000;
constexpr std::uint32_t kUntilAskedAgain_ms = 1000;

ParkingState& state() { return process().parking; }

void set_place(Place place) {
  own_parking().since_ns.store(base::boot_ns(), std::memory_order_relaxed);
  own_parking().place.store(place, std::memory_order_release);
}

// Work that was submitted is done. Contexts do not end meanwhile.
void wait_for_work() {
  const CaretakerAway away;
  const base::Hold hold(process().ending_context);
  process().contexts.for_each([](std::uint64_t context, std::uint64_t value) {
    CUcontext popped = nullptr;
    if (value == 0 || real.cuCtxPushCurrent_v2(reinterpret_cast<CUcontext>(context)) != 0) return;
    (void)real.cuCtxSynchronize();
    (void)real.cuCtxPopCurrent_v2(&popped);
  });
}

Refusal why_not() {
  Process& self = process();
  if (self.captures.load(std::memory_order_acquire) != 0) return Refusal::kCapture;
  return holds_managed_memory() ? Refusal::kManaged : Refusal::kNone;
}

// Nobody is inside, and nothing that was submitted is under way.
Refusal shut_the_gate() {
  wait_for_work();
  {
    const CaretakerAway away;
    if (!Gate::close(kUntilAllAreOut_us)) return Refusal::kBusy;
  }
  const Refusal refusal = why_not();
  if (refusal != Refusal::kNone) return refusal;
  wait_for_work();
  return Gate::shut() ? Refusal::kNone : Refusal::kBusy;
}

// `back`: bytes of the amount that the card has back already.
Refusal move_out(const Amount& amount, std::uint64_t back) {
  wire::Parking& parking = own_parking();
  const std::uint64_t start = base::boot_ns();
  Refusal refusal = choose_to_leave(amount, back);
  if (refusal != Refusal::kNone || total(leaving) == 0) return refusal;
  parking.moved.store(total(gone), std::memory_order_relaxed);
  parking.bytes.store(total(away) + total(leaving), std::memory_order_relaxed);
  begin_leaving();
  refusal = elastic_memory()->park(&parking.moved);
  if (refusal == Refusal::kNone) {
    end_leaving();
    parking.move_us.store((base::boot_ns() - start) / 1000, std::memory_order_relaxed);
    parking.times.fetch_add(1, std::memory_order_relaxed);
  } else {
    keep_leaving();
  }
  parking.bytes.store(total(gone), std::memory_order_relaxed);
  return refusal;
}

void come_home() {
  own_parking().bytes.store(0, std::memory_order_relaxed);
  forget_away();
  state().wanted.store(false, std::memory_order_relaxed);
  set_place(Place::kCard);
  Gate::open();
}

// What idles goes back uncopied; how much of the amount that was, and nobody is inside any more.
Refusal make_ready(const Amount& amount, std::uint64_t* back) {
  const std::uint64_t before = elastic_bytes(amount.device);
  trim_own_pools();
  const Refusal refusal = shut_the_gate();
  const std::uint64_t after = elastic_bytes(amount.device);
  *back = before > after ? before - after : 0;
  return refusal;
}

Refusal send_away(const Amount& amount) {
  // Partly, and the gate is shut.
  const bool was_away = is_away();
  Refusal refusal = was_away ? Refusal::kNone : why_not();
  if (refusal != Refusal::kNone) return refusal;
  set_place(Place::kParking);
  std::uint64_t back = 0;
  if (!was_away) refusal = make_ready(amount, &back);
  if (refusal == Refusal::kNone) refusal = move_out(amount, back);
  if (!elastic_memory()->is_parked()) {
    come_home();
    return refusal;
  }
  set_place(Place::kHost);
  // The driver failed half-way: back it goes. What was away before stays.
  if (refusal != Refusal::kNone && !was_away) want_memory();
  return refusal;
}

// False: it is known that the card has less than this free.
bool may_have_room(std::uint32_t ordinal, std::uint64_t bytes) {
  CUcontext popped = nullptr;
  CUcontext const context = context_on(static_cast<CUdevice>(ordinal));
  if (context == nullptr || real.cuCtxPushCurrent_v2(context) != CUDA_SUCCESS) return true;
  std::size_t free = 0;
  std::size_t total = 0;
  const bool known = real.cuMemGetInfo_v2(&free, &total) == CUDA_SUCCESS;
  (void)real.cuCtxPopCurrent_v2(&popped);
  return !known || bytes <= free;
}

// Whether the cards have room for what is away, asked of the daemon first. Another process may be
// faster all the same; then the driver says so.
bool ask_for_all() {
  bool granted = true;
  for_devices(away, [&](const Device& device, const Bytes& bytes) {
    if (!granted) return;
    {
      const CaretakerAway caretaker_away;
      granted = may_stay(device, device.account.moving(), both(bytes)) &&
                ask_for_room(device, both(bytes), kUntilAskedAgain_ms) != wire::RoomAnswer::kLater;
    }
    const auto ordinal = static_cast<std::uint32_t>(&device - process().device);
    granted = granted && may_have_room(ordinal, both(bytes));
  });
  return granted;
}

Refusal move_in() {
  wire::Parking& parking = own_parking();
  const std::uint64_t start = base::boot_ns();
  set_place(Place::kRestoring);
  parking.moved.store(0, std::memory_order_relaxed);
  const Refusal refusal = elastic_memory()->restore(&parking.moved);
  if (refusal == Refusal::kNone) {
    parking.move_us.store((base::boot_ns() - start) / 1000, std::memory_order_relaxed);
  }
  return refusal;
}

Refusal bring_back() {
  if (!ask_for_all() || !reserve_away()) {
    set_place(Place::kWaiting);
    return Refusal::kCardMemory;
  }
  const Refusal refusal = move_in();
  if (refusal != Refusal::kNone) {
    roll_back_away();
    set_place(Place::kWaiting);
    return refusal;
  }
  commit_away();
  come_home();
  return refusal;
}

// Idle from the moment that the card had done what was submitted last. A program that submits pays
// nothing for this; one that has just stopped is waited for, once.
void watch_activity() {
  wire::Parking& parking = own_parking();
  const std::uint64_t passes = Gate::passes();
  if (passes != state().passes) {
    state().passes = passes;
    parking.idle_ns.store(0, std::memory_order_relaxed);
    return;
  }
  if (parking.idle_ns.load(std::memory_order_relaxed) != 0 || is_away() ||
      process().captures.load(std::memory_order_acquire) != 0) {
    return;
  }
  wait_for_work();
  if (Gate::passes() == passes) parking.idle_ns.store(base::boot_ns(), std::memory_order_relaxed);
}

bool is_due_by_itself() {
  const std::uint64_t after_ms = job()->header.park_after_ms;
  const std::uint64_t idle_ns = own_parking().idle_ns.load(std::memory_order_relaxed);
  return after_ms != 0 && idle_ns != 0 && !is_away() &&
         base::boot_ns() - idle_ns >= after_ms * 1'000'000;
}

void send_away_if_asked(const MoveRequest& request) {
  if (request.word != 0 && request.move() == Move::kToHost) {
    ledger::answer(own_parking(), request, send_away(request.amount()));
    return;
  }
  if (request.word != 0 || !is_due_by_itself()) return;
  const Refusal refusal = send_away({});
  own_parking().refusal.store(refusal, std::memory_order_relaxed);
  // Tried again when it has idled as long once more.
  if (refusal != Refusal::kNone)
    own_parking().idle_ns.store(base::boot_ns(), std::memory_order_relaxed);
}

}  // namespace

wire::Parking& own_parking() { return job()->parking[process().slot]; }

void open_parking() { set_place(Place::kCard); }

bool is_away() {
  const Place place = own_parking().place.load(std::memory_order_acquire);
  return is_elastic() && place != Place::kNone && place != Place::kCard;
}

bool has_to_move() {
  const MoveRequest request = ledger::open_request(own_parking());
  return request.word != 0 || (state().wanted.load(std::memory_order_acquire) && is_away());
}

void want_memory() { state().wanted.store(true, std::memory_order_release); }

void let_pass_unless_away() {
  if (!elastic_memory()->is_parked()) come_home();
}

bool tend_parking() {
  wire::Parking& parking = own_parking();
  const MoveRequest request = ledger::open_request(parking);
  if (!caretaker_has_ended()) {
    watch_activity();
    send_away_if_asked(request);
  }
  const bool back = request.word != 0 && request.move() == Move::kToCard;
  if (back) want_memory();
  if (is_away()) {
    if (!state().wanted.load(std::memory_order_acquire)) return false;
    if (bring_back() != Refusal::kNone) return true;
  }
  state().wanted.store(false, std::memory_order_relaxed);
  if (back) ledger::answer(parking, request, Refusal::kNone);
  return false;
}

}  // namespace vram::interpose
