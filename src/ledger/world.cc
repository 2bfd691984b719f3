#include "ledger/world.h"

#include <time.h>

#include "base/process_identity.h"

namespace vram::ledger {
namespace {

// About what a driver's allocation takes: whoever waits for one looks again
// when it is done.
constexpr long kNap_ns = 50'000;

void nap() {
  const timespec time{0, kNap_ns};
  nanosleep(&time, nullptr);
}

std::uint64_t monotonic_ms() {
  timespec now{};
  clock_gettime(CLOCK_MONOTONIC, &now);
  return static_cast<std::uint64_t>(now.tv_sec) * 1000 +
         static_cast<std::uint64_t>(now.tv_nsec) / 1'000'000;
}

}  // namespace

const World& real_world() {
  static constexpr World world{base::is_alive, nap, monotonic_ms};
  return world;
}

}  // namespace vram::ledger
