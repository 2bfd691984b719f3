#include "residency/gate.h"

#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <thread>
#include <vector>

namespace vram::residency {
namespace {

using std::chrono::milliseconds;

std::atomic<unsigned> wanted_times{0};

constexpr std::uint64_t kLong_us = 5'000'000;

class GateTest : public ::testing::Test {
 protected:
  void SetUp() override {
    Gate::put_up([] { ++wanted_times; });
    wanted_times = 0;
  }
};

TEST_F(GateTest, NobodyIsInsideWhileItIsShut) {
  std::atomic<bool> stop{false};
  std::atomic<int> inside{0};
  std::atomic<std::uint64_t> calls{0};
  std::vector<std::thread> threads;
  for (int t = 0; t < 4; ++t) {
    threads.emplace_back([&] {
      while (!stop) {
        const Through through;
        inside.fetch_add(1, std::memory_order_relaxed);
        const Through nested;
        calls.fetch_add(1, std::memory_order_relaxed);
        inside.fetch_sub(1, std::memory_order_relaxed);
      }
    });
  }
  for (int round = 0; round < 300; ++round) {
    if (!Gate::close(kLong_us) || !Gate::shut()) continue;
    for (int look = 0; look < 100; ++look) EXPECT_EQ(inside.load(), 0);
    const std::uint64_t before = calls;
    if (round % 50 == 0) std::this_thread::sleep_for(milliseconds(2));
    EXPECT_EQ(calls, before);
    Gate::open();
    std::this_thread::yield();
  }
  const std::uint64_t before = calls;
  while (calls == before) std::this_thread::yield();
  stop = true;
  for (std::thread& thread : threads) thread.join();
}

TEST_F(GateTest, WhoeverStaysInsideKeepsItOpen) {
  std::atomic<int> step{0};
  std::thread caller([&] {
    const Through through;
    step = 1;
    while (step == 1) std::this_thread::yield();
  });
  while (step == 0) std::this_thread::yield();
  EXPECT_FALSE(Gate::close(2'000));
  { const Through passes; }
  step = 2;
  caller.join();
  EXPECT_TRUE(Gate::close(kLong_us));
  Gate::open();
}

TEST_F(GateTest, WhoeverWaitsLongAtAClosingGateOpensIt) {
  ASSERT_TRUE(Gate::close(kLong_us));
  std::thread caller([] { const Through through; });
  caller.join();
  EXPECT_GT(wanted_times, 0u);
  EXPECT_FALSE(Gate::shut()) << "it was opened meanwhile";
}

TEST_F(GateTest, NobodyOpensAShutGateButWhoShutIt) {
  ASSERT_TRUE(Gate::close(kLong_us));
  ASSERT_TRUE(Gate::shut());
  std::atomic<bool> through{false};
  std::thread caller([&] {
    const Through passes;
    through = true;
  });
  std::this_thread::sleep_for(milliseconds(400));
  EXPECT_FALSE(through);
  EXPECT_GT(wanted_times, 0u);
  Gate::open();
  caller.join();
  EXPECT_TRUE(through);
}

TEST_F(GateTest, AThreadThatEndsLeavesItsSeatToOthers) {
  for (int i = 0; i < 5000; ++i) {
    std::thread([] { const Through through; }).join();
  }
  EXPECT_TRUE(Gate::close(kLong_us));
  Gate::open();
}

TEST_F(GateTest, MoreThreadsThanSeatsAreStillSeen) {
  constexpr int kThreads = 2100;
  std::atomic<int> inside{0};
  std::atomic<bool> go{false};
  std::vector<std::thread> threads;
  threads.reserve(kThreads);
  for (int t = 0; t < kThreads; ++t) {
    threads.emplace_back([&] {
      const Through through;
      const Through nested;
      ++inside;
      go.wait(false);
    });
  }
  while (inside != kThreads) std::this_thread::sleep_for(milliseconds(1));
  EXPECT_FALSE(Gate::close(1'000));
  go = true;
  go.notify_all();
  for (std::thread& thread : threads) thread.join();
  EXPECT_TRUE(Gate::close(kLong_us));
  Gate::open();
}

TEST_F(GateTest, AForkedChildHasAnOpenGate) {
  ASSERT_TRUE(Gate::close(kLong_us));
  ASSERT_TRUE(Gate::shut());
  const pid_t child = fork();
  if (child == 0) {
    Gate::put_up(nullptr);
    { const Through through; }
    const bool free = Gate::close(kLong_us);
    _exit(free ? 0 : 1);
  }
  Gate::open();
  int status = -1;
  ASSERT_EQ(waitpid(child, &status, 0), child);
  EXPECT_EQ(status, 0);
}

}  // namespace
}  // namespace vram::residency
