// Eight processes of 64 threads race for one cap.

#include <gtest/gtest.h>
#include <sched.h>
#include <signal.h>
#include <unistd.h>

#include <atomic>
#include <chrono>
#include <random>
#include <thread>
#include <vector>

#include "ledger/word.h"
#include "members.h"

namespace vram::ledger_tests {
namespace {

constexpr std::uint64_t kG = wire::kGranule;
constexpr std::uint64_t kCap = 1024 * kG;
// No more than this is ever settled, so every request of up to the rest fits once all others are.
constexpr std::uint64_t kMostSettled = 512 * kG;
constexpr int kProcesses = 8;
constexpr int kThreads = 64;
constexpr int kRequests = 10;  // a thread

using Clock = std::chrono::steady_clock;

struct Page {
  std::atomic<std::int64_t> may_settle;  // bytes
  std::atomic<std::uint64_t> granted, refused, longest_us;
  std::atomic<bool> over;
  std::atomic<std::uint64_t> highest;
};

class Racer {
 public:
  Racer(const ledger::Account& account, Page& page, int thread)
      : account_(account), page_(page), random_(static_cast<unsigned>(getpid() * 64 + thread)) {}

  void run() {
    for (int i = 0; i < kRequests; ++i) {
      const std::uint64_t bytes = (random_() % ((kCap - kMostSettled) / kG) + 1) * kG;
      if (held_ != 0) release();
      if (!reserve(bytes)) continue;
      call_driver();
      settle(bytes);
    }
    if (held_ != 0) release();
  }

 private:
  // Some microseconds, and sometimes until others have run.
  void call_driver() {
    const auto end = Clock::now() + std::chrono::microseconds(random_() % 20);
    while (Clock::now() < end) continue;
    if (random_() % 8 == 0) sched_yield();
  }

  bool reserve(std::uint64_t bytes) {
    const auto start = Clock::now();
    const bool granted = account_.reserve(bytes);
    const auto took = std::chrono::duration_cast<std::chrono::microseconds>(Clock::now() - start);
    ++(granted ? page_.granted : page_.refused);
    raise(page_.longest_us, static_cast<std::uint64_t>(took.count()));
    return granted;
  }

  // Taken before the commit and given back after the release began: what is settled is never more
  // than was taken here.
  bool may_settle(std::int64_t bytes) {
    if (page_.may_settle.fetch_sub(bytes) >= bytes) return true;
    page_.may_settle += bytes;
    return false;
  }

  void settle(std::uint64_t bytes) {
    if (random_() % 2 == 0 || !may_settle(static_cast<std::int64_t>(bytes))) {
      return account_.roll_back(bytes);
    }
    account_.commit(bytes);
    held_ = bytes;
  }

  void release() {
    const std::uint64_t bytes = held_;
    held_ = 0;
    account_.begin_release(bytes);
    page_.may_settle += static_cast<std::int64_t>(bytes);
    call_driver();
    account_.end_release(bytes);
  }

  static void raise(std::atomic<std::uint64_t>& highest, std::uint64_t value) {
    std::uint64_t seen = highest;
    while (seen < value && !highest.compare_exchange_weak(seen, value)) {
    }
  }

  const ledger::Account account_;
  Page& page_;
  std::minstd_rand random_;
  std::uint64_t held_ = 0;
};

int race(const std::string& path, Page& page) {
  const ledger::Account account = join(path);
  std::vector<std::thread> threads;
  for (int i = 0; i < kThreads; ++i) {
    threads.emplace_back([&, i] { Racer(account, page, i).run(); });
  }
  for (std::thread& thread : threads) thread.join();
  return account.own_bytes() == 0 && account.own_pending() == 0 ? 0 : 1;
}

// Reads the total without a pause, in a process of its own.
[[noreturn]] void watch(const SharedJob& job, Page& page) {
  const wire::Mapping mapping = wire::open_job(job.path().c_str(), wire::Access::kRead);
  for (;;) {
    for (int i = 0; i < 1000; ++i) {
      const std::uint64_t total = ledger::total_bytes(*mapping.job, job.device());
      if (total > kCap) page.over = true;
      if (total > page.highest) page.highest = total;
    }
    sched_yield();
  }
}

TEST(Race, FiveHundredThreadsAreNeverOverTheCapAndNeverRefusedWhatWouldFit) {
  const SharedJob job(kCap);
  Page& page = *static_cast<Page*>(shared_memory(sizeof(Page)));
  page.may_settle = kMostSettled;
  const pid_t watcher = start([&]() -> int { watch(job, page); });
  std::vector<pid_t> members;
  for (int i = 0; i < kProcesses; ++i) {
    members.push_back(start([&] { return race(job.path(), page); }));
  }
  for (const pid_t member : members) EXPECT_TRUE(ended_well(member));
  kill(watcher, SIGKILL);
  (void)ended_well(watcher);
  printf("%lu granted, %lu refused, the longest took %lu us, highest %lu of %lu\n",
         page.granted.load(), page.refused.load(), page.longest_us.load(), page.highest.load(),
         kCap);
  EXPECT_FALSE(page.over);
  EXPECT_EQ(page.refused, 0u) << "it would have fitted once all others had settled";
  EXPECT_EQ(page.granted, std::uint64_t{kProcesses} * kThreads * kRequests);
  EXPECT_GT(page.highest, kCap / 2);
  EXPECT_EQ(ledger::total_bytes(*job, job.device()), 0u);
}

TEST(Race, WhatIsLeftIsGrantedToTheByteWhenAllIsStill) {
  const SharedJob job(kCap);
  const ledger::Account account = join(*job);
  ASSERT_TRUE(account.reserve(300 * kG));
  account.commit(300 * kG);
  const pid_t other = start([&] {
    const ledger::Account mine = join(job.path());
    if (mine.reserve(kCap - 300 * kG + 1)) return 1;
    if (!mine.reserve(kCap - 300 * kG)) return 2;
    mine.commit(kCap - 300 * kG);
    return mine.reserve(1) ? 3 : 0;
  });
  EXPECT_TRUE(ended_well(other));
  EXPECT_TRUE(account.reserve(kCap - 300 * kG)) << "the other is gone";
}

}  // namespace
}  // namespace vram::ledger_tests
