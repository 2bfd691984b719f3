// When a request waits for others, and when it is refused.

#include <gtest/gtest.h>

#include <thread>
#include <vector>

#include "ledger/test_job.h"
#include "ledger/wait.h"

namespace vram::ledger {
namespace {

constexpr std::uint64_t kG = wire::kGranule;

class Settle : public testing::Test {
 protected:
  Account account(std::uint64_t identity) {
    return {&*job_, device_, claim_slot(*job_, {identity, 0}, *world_.get()), world_.get()};
  }
  void set_limit(std::uint64_t bytes) { job_->device[device_].limit.store(bytes); }
  std::uint64_t used() { return total_bytes(*job_, device_); }

  FakeWorld world_;
  TestJob job_;
  std::uint32_t device_ = job_.add_device(8 * kG);
  Account mine_ = account(1), other_ = account(2);
};

TEST_F(Settle, ARequestWaitsForAPendingOneAndIsGrantedWhenThatIsRolledBack) {
  ASSERT_TRUE(other_.reserve(6 * kG));
  world_.on_nap = [&] {
    if (world_.naps == 3) other_.roll_back(6 * kG);
  };
  EXPECT_TRUE(mine_.reserve(4 * kG));
  EXPECT_EQ(world_.naps, 3u);
  EXPECT_EQ(used(), 4 * kG);
}

TEST_F(Settle, ARequestWaitsForARunningReleaseAndIsGrantedWhenThatEnds) {
  ASSERT_TRUE(other_.reserve(6 * kG));
  other_.commit(6 * kG);
  other_.begin_release(6 * kG);
  world_.on_nap = [&] { other_.end_release(6 * kG); };
  EXPECT_TRUE(mine_.reserve(4 * kG));
  EXPECT_EQ(world_.naps, 1u);
}

TEST_F(Settle, ARequestIsRefusedOnceThePendingOneIsCommitted) {
  ASSERT_TRUE(other_.reserve(6 * kG));
  world_.on_nap = [&] { other_.commit(6 * kG); };
  EXPECT_FALSE(mine_.reserve(4 * kG));
  EXPECT_EQ(world_.naps, 1u);
}

TEST_F(Settle, ARequestThatNoSettlingWouldFitIsRefusedAtOnce) {
  ASSERT_TRUE(other_.reserve(6 * kG));
  other_.commit(6 * kG);
  ASSERT_TRUE(other_.reserve(kG));  // stays pending
  EXPECT_FALSE(mine_.reserve(3 * kG));
  EXPECT_EQ(world_.naps, 0u);
}

TEST_F(Settle, APendingRequestCountsAsWholeGranules) {
  // Two requests of 100 bytes take two granules; rolled back they give back two
  // granules.
  set_limit(2 * kG);
  ASSERT_TRUE(other_.reserve(100));
  ASSERT_TRUE(other_.reserve(100));
  world_.on_nap = [&] {
    other_.roll_back(100);
    other_.roll_back(100);
    world_.on_nap = nullptr;
  };
  EXPECT_TRUE(mine_.reserve(2 * kG));
}

TEST_F(Settle, ALimitThatIsNoWholeGranuleRefusesAtOnce) {
  set_limit(1000);
  EXPECT_FALSE(mine_.reserve(600)) << "takes 1,024";
  EXPECT_EQ(world_.naps, 0u);
  EXPECT_TRUE(mine_.reserve(512));
}

TEST_F(Settle, AnUnendingRequestIsRefusedAtOnceWithoutALimitToo) {
  set_limit(wire::kUnlimited);
  EXPECT_FALSE(mine_.reserve(~std::uint64_t{0}));
  EXPECT_FALSE(mine_.reserve(std::uint64_t{1} << 62));
  EXPECT_EQ(world_.naps, 0u);
}

TEST_F(Settle, WhatNeverSettlesIsRefusedAtTheDeadline) {
  ASSERT_TRUE(other_.reserve(6 * kG));  // and stays pending
  EXPECT_FALSE(mine_.reserve(4 * kG));
  EXPECT_EQ(world_.clock, kSettle_ms);
}

TEST_F(Settle, TheDeadAreReapedBeforeARefusal) {
  ASSERT_TRUE(other_.reserve(8 * kG));
  other_.commit(8 * kG);
  world_.dead.insert(2);
  EXPECT_TRUE(mine_.reserve(8 * kG));
  EXPECT_EQ(world_.naps, 0u);
  EXPECT_EQ(mine_.usage().denials, 0u);
}

TEST_F(Settle, ThePendingBytesOfTheDeadHoldUpNobody) {
  ASSERT_TRUE(mine_.reserve(6 * kG));
  mine_.commit(6 * kG);
  other_.begin_release(8 * kG);  // killed here
  world_.dead.insert(2);
  EXPECT_FALSE(mine_.reserve(4 * kG));
  EXPECT_LE(world_.clock, 20u);
}

}  // namespace
}  // namespace vram::ledger
