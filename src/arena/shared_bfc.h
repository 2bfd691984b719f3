#pragma once

// A Bfc for any number of threads, that waits for memory to come back before it refuses.
//
// One lock is held during each try, the source's calls included, and given up while waiting; a free
// cannot fall between a failed try and the wait for it.

#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <functional>
#include <mutex>
#include <optional>

#include "arena/bfc.h"
#include "arena/bfc_report.h"

namespace vram::arena {

// How time passes for those who wait.
class BfcWait {
 public:
  using Time = std::chrono::steady_clock::time_point;

  BfcWait() = default;
  BfcWait(const BfcWait&) = delete;
  BfcWait& operator=(const BfcWait&) = delete;
  virtual ~BfcWait() = default;

  [[nodiscard]] virtual Time now() = 0;
  // Returns after a notification, at `until`, or for no reason; the lock is given up meanwhile.
  virtual void wait(std::condition_variable& returned, std::unique_lock<std::mutex>& lock,
                    Time until) = 0;
};

class SteadyBfcWait final : public BfcWait {
 public:
  [[nodiscard]] Time now() override { return std::chrono::steady_clock::now(); }
  void wait(std::condition_variable& returned, std::unique_lock<std::mutex>& lock,
            Time until) override {
    returned.wait_until(lock, until);
  }
};

// The original's patience: what other threads hold for one step of their work is back by then.
constexpr std::chrono::milliseconds kBfcPatience{10'000};

struct SharedBfcRequest {
  std::uint64_t bytes = 0;
  std::uint64_t alignment = kBfcGranule;  // a power of two
  // Asked anew before each try, for BfcRequest::freed_before; none: 0. Called with the lock held,
  // so that a count that passes later comes with a notification later: it does not call the arena.
  std::function<std::uint64_t()> freed_before;
  // From the first refusal; zero: one try, no waiting.
  std::chrono::milliseconds patience = kBfcPatience;
  // Filled when memory is refused for good, in the state that refused it. May be null.
  BfcReport* report = nullptr;
};

class SharedBfc {
 public:
  // Source and wait outlive the arena.
  SharedBfc(RegionSource& source, const BfcOptions& options, BfcWait& wait)
      : wait_(wait), bfc_(source, options) {}

  [[nodiscard]] base::Expected<std::uint64_t, BfcError> allocate(const SharedBfcRequest& request);

  // As in Bfc.
  [[nodiscard]] bool free(std::uint64_t address);
  [[nodiscard]] std::optional<BfcAllocation> find(std::uint64_t address) const;
  void set_timing_counter(std::atomic<std::uint64_t>* counter);
  void set_safe_frontier(std::uint64_t count);
  [[nodiscard]] BfcStats stats() const;
  void clear_stats();
  [[nodiscard]] double fragmentation() const;
  [[nodiscard]] BfcReport report(const BfcRequest& request) const;

 private:
  BfcWait& wait_;
  mutable std::mutex mutex_;
  std::condition_variable returned_;  // memory came back since
  Bfc bfc_;                           // under mutex_
};

}  // namespace vram::arena
