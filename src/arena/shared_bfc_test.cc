#include "arena/shared_bfc.h"

#include <gtest/gtest.h>

#include <functional>
#include <thread>
#include <vector>

#include "arena/bfc_trace_for_test.h"
#include "arena/pretend_regions_for_test.h"

namespace vram::arena {
namespace {

using std::chrono::milliseconds;

// Time passes only by waiting: a second at a time, in which something may happen.
class PretendWait final : public BfcWait {
 public:
  Time now() override { return now_; }
  void wait(std::condition_variable&, std::unique_lock<std::mutex>& lock, Time until) override {
    lock.unlock();
    ++waits;
    if (meanwhile) meanwhile();
    lock.lock();
    now_ = std::min(until, now_ + milliseconds(1000));
  }
  milliseconds passed() const {
    return std::chrono::duration_cast<milliseconds>(now_.time_since_epoch());
  }

  std::function<void()> meanwhile;
  int waits = 0;

 private:
  Time now_{};
};

struct Full {
  Full() : bfc(regions, options(), wait) {
    SharedBfcRequest request;
    request.bytes = 4096;
    held = *bfc.allocate(request);
  }
  static BfcOptions options() {
    BfcOptions options;
    options.limit = 4096;
    options.growth = false;
    return options;
  }
  PretendRegions regions{RegionHabits{}};
  PretendWait wait;
  SharedBfc bfc;
  std::uint64_t held = 0;
};

TEST(SharedBfc, WaitsTenSecondsBeforeItRefuses) {
  Full arena;
  SharedBfcRequest request;
  request.bytes = 1;
  const auto refused = arena.bfc.allocate(request);
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error(), BfcError::kOutOfMemory);
  EXPECT_EQ(arena.wait.passed(), milliseconds(10'000));
}

TEST(SharedBfc, TakesWhatComesBackWhileItWaits) {
  Full arena;
  arena.wait.meanwhile = [&] {
    if (arena.wait.waits == 3) {
      EXPECT_TRUE(arena.bfc.free(arena.held));
    }
  };
  SharedBfcRequest request;
  request.bytes = 4096;
  const auto address = arena.bfc.allocate(request);
  ASSERT_TRUE(address);
  EXPECT_EQ(*address, arena.held);
  EXPECT_EQ(arena.wait.passed(), milliseconds(3000));
}

TEST(SharedBfc, TriesAgainAfterTheLastWait) {
  Full arena;
  arena.wait.meanwhile = [&] {
    if (arena.wait.waits == 10) {
      EXPECT_TRUE(arena.bfc.free(arena.held));
    }
  };
  SharedBfcRequest request;
  request.bytes = 4096;
  EXPECT_TRUE(arena.bfc.allocate(request));
}

TEST(SharedBfc, DoesNotWaitWithoutPatienceOrForWhatIsNoMatterOfTime) {
  Full arena;
  SharedBfcRequest request;
  request.bytes = 1;
  request.patience = milliseconds(0);
  int tries = 0;
  request.freed_before = [&] {
    ++tries;
    return std::uint64_t{0};
  };
  EXPECT_FALSE(arena.bfc.allocate(request));
  EXPECT_EQ(tries, 1);
  request = {};
  EXPECT_EQ(arena.bfc.allocate(request).error(), BfcError::kZeroBytes);
  request.bytes = 1;
  request.alignment = 3;
  EXPECT_EQ(arena.bfc.allocate(request).error(), BfcError::kBadAlignment);
  EXPECT_EQ(arena.wait.waits, 0);
}

TEST(SharedBfc, AsksForTheCountAnewBeforeEachTry) {
  Full arena;
  std::atomic<std::uint64_t> counter = 7;
  arena.bfc.set_timing_counter(&counter);
  ASSERT_TRUE(arena.bfc.free(arena.held));  // at 8
  std::uint64_t count = 5;
  arena.wait.meanwhile = [&] { ++count; };
  SharedBfcRequest request;
  request.bytes = 4096;
  request.freed_before = [&] { return count; };
  EXPECT_TRUE(arena.bfc.allocate(request));
  EXPECT_EQ(arena.wait.waits, 3);
}

TEST(SharedBfc, ReportsTheStateThatRefused) {
  Full arena;
  BfcReport report;
  SharedBfcRequest request;
  request.bytes = 300;
  request.report = &report;
  EXPECT_FALSE(arena.bfc.allocate(request));
  EXPECT_EQ(report.rounded, 512U);
  EXPECT_EQ(report.stats.bytes_in_use, 4096U);
  EXPECT_EQ(report.map, std::string(100, '*'));
}

TEST(SharedBfc, ForwardsTheRest) {
  Full arena;
  EXPECT_EQ(arena.bfc.find(arena.held)->allocated, 4096U);
  EXPECT_EQ(arena.bfc.fragmentation(), 0);
  EXPECT_EQ(arena.bfc.report({1, 256, 0}).rounded, 256U);
  arena.bfc.clear_stats();
  EXPECT_EQ(arena.bfc.stats().num_allocs, 0U);
  EXPECT_FALSE(arena.bfc.free(arena.held + 256));
}

// With the real clock: a thread that waits is woken, or this would take ten seconds a time.
TEST(SharedBfc, AFreeAndASafeFrontierWakeWhoWaits) {
  PretendRegions regions{RegionHabits{}};
  SteadyBfcWait wait;
  SharedBfc bfc(regions, Full::options(), wait);
  std::atomic<std::uint64_t> counter = 0;
  for (const bool by_frontier : {false, true}) {
    SharedBfcRequest request;
    request.bytes = 2048;
    const auto one = bfc.allocate(request);
    const auto two = bfc.allocate(request);
    ASSERT_TRUE(one && two);
    bfc.set_timing_counter(by_frontier ? &counter : nullptr);
    if (by_frontier) {
      ASSERT_TRUE(bfc.free(*one));
      ASSERT_TRUE(bfc.free(*two));
    }
    const auto begun = std::chrono::steady_clock::now();
    std::thread waker([&] {
      std::this_thread::sleep_for(milliseconds(20));
      if (by_frontier) {
        bfc.set_safe_frontier(3);
      } else {
        EXPECT_TRUE(bfc.free(*one));
        EXPECT_TRUE(bfc.free(*two));
      }
    });
    request.bytes = 4096;
    if (by_frontier) request.freed_before = [] { return std::uint64_t{1}; };
    const auto whole = bfc.allocate(request);
    waker.join();
    ASSERT_TRUE(whole);
    EXPECT_LT(std::chrono::steady_clock::now() - begun, milliseconds(5000));
    bfc.set_timing_counter(nullptr);
    EXPECT_TRUE(bfc.free(*whole));
  }
}

TEST(SharedBfc, ManyThreadsLeaveNothingBehind) {
  PretendRegions regions{RegionHabits{}};
  SteadyBfcWait wait;
  BfcOptions options;
  options.limit = 1 << 20;
  SharedBfc bfc(regions, options, wait);
  std::vector<std::thread> threads;
  for (std::uint64_t seed = 0; seed < 4; ++seed) {
    threads.emplace_back([&bfc, seed] {
      Dice dice(seed);
      std::vector<std::uint64_t> held;
      SharedBfcRequest request;
      request.patience = milliseconds(0);
      for (int i = 0; i < 5000; ++i) {
        request.bytes = dice.between(1, 20'000);
        if (const auto address = bfc.allocate(request)) held.push_back(*address);
        if (held.size() > 10 || dice.one_in(2)) {
          if (held.empty()) continue;
          EXPECT_TRUE(bfc.free(held.back()));
          held.pop_back();
        }
      }
      for (const std::uint64_t address : held) EXPECT_TRUE(bfc.free(address));
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(bfc.stats().bytes_in_use, 0U);
  EXPECT_EQ(bfc.stats().largest_free_block_bytes > 0, true);
}

}  // namespace
}  // namespace vram::arena
