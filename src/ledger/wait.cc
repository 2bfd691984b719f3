#include "ledger/wait.h"

#include "ledger/ledger.h"

namespace vram::ledger {
namespace {

// Longer than a driver's allocation takes, so that who would be served anyway asks for nothing.
constexpr std::uint64_t kPatience_ms = 5;

// A thousand living processes take some milliseconds to look at.
constexpr std::uint64_t kReapEvery_ms = 10;

// Longest sleeps. Nobody relies on being woken; and hundreds who look all the time leave no core to
// those they wait for.
constexpr std::uint32_t kFirst_us = 500;
constexpr std::uint32_t kOthers_us = 50'000;

// More than one, in case the first is dead, or wants more than there is.
constexpr int kWoken = 2;

const std::uint32_t* futex_of(const std::atomic<std::uint32_t>& word) {
  return reinterpret_cast<const std::uint32_t*>(&word);
}

// The place of a local variable differs between the threads that wait, and between most processes.
std::uint16_t holder_of(const void* local) {
  const auto place = reinterpret_cast<std::uintptr_t>(local) >> 4;
  return static_cast<std::uint16_t>((place * 0x9e3779b97f4a7c15) >> 48 | 1);
}

}  // namespace

Wait::Wait(wire::Job& job, std::uint32_t device, const World& world)
    : job_(job),
      device_(job.device[device]),
      world_(world),
      turn_(device_.turn, holder_of(this)),
      seen_(device_.settled.load(std::memory_order_acquire)),
      start_(world.now_ms()),
      now_(start_) {}

Wait::~Wait() {
  if (turn_.give_back()) wake(turn_.futex(), kWoken);
  // There may be room for more than this request.
  note_settled(device_);
}

void Wait::reap_now_and_then() {
  std::uint64_t last = job_.header.reaped_ms.load(std::memory_order_relaxed);
  if (now_ - last < kReapEvery_ms) return;
  if (!job_.header.reaped_ms.compare_exchange_strong(last, now_)) return;
  (void)reap(job_, world_);
}

void Wait::nap() {
  const std::uint64_t before = now_;
  const std::uint32_t turn = turn_.word();
  const bool behind = turn_.is_anothers(now_);
  if (behind) {
    world_.sleep(turn_.futex(), turn, kOthers_us);
  } else {
    const bool first = now_ - start_ >= kPatience_ms && turn_.take(now_);
    device_.waiting.store(1, std::memory_order_seq_cst);
    world_.sleep(futex_of(device_.settled), seen_, first ? kFirst_us : kOthers_us);
  }
  seen_ = device_.settled.load(std::memory_order_acquire);
  now_ = world_.now_ms();
  if (!behind) waited_ms_ += now_ - before;
  turn_.end_if_over(now_);
}

void Wait::call_waiting(wire::DeviceAccount& device) {
  if (device.waiting.exchange(0) == 0) return;
  device.settled.fetch_add(1);
  wake(futex_of(device.settled), kWoken);
}

}  // namespace vram::ledger
