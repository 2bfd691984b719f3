#include "ledger/world.h"

#include <linux/futex.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include "base/process_identity.h"

namespace vram::ledger {
namespace {

std::uint64_t monotonic_ms() {
  timespec now{};
  clock_gettime(CLOCK_MONOTONIC, &now);
  return static_cast<std::uint64_t>(now.tv_sec) * 1000 +
         static_cast<std::uint64_t>(now.tv_nsec) / 1'000'000;
}

void sleep_on(const std::uint32_t* word, std::uint32_t seen, std::uint32_t us) {
  const timespec time{us / 1'000'000, us % 1'000'000 * 1000L};
  syscall(SYS_futex, word, FUTEX_WAIT, seen, &time, nullptr, 0);
}

}  // namespace

void wake(const std::uint32_t* word, int count) {
  syscall(SYS_futex, word, FUTEX_WAKE, count, nullptr, nullptr, 0);
}

const World& real_world() {
  static constexpr World world{base::is_alive, monotonic_ms, sleep_on};
  return world;
}

}  // namespace vram::ledger
