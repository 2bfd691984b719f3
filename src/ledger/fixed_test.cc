#include "ledger/fixed.h"

#include <gtest/gtest.h>

#include "ledger/test_job.h"

namespace vram::ledger {
namespace {

constexpr std::uint64_t kG = wire::kGranule;

class Fixed : public testing::Test {
 protected:
  Fixed() { job_->header.pools = wire::Pools::kElastic; }

  Account account(std::uint64_t identity) {
    return {&*job_, device_, claim_slot(*job_, {identity, 0}, *world_.get()), world_.get()};
  }
  std::uint64_t fixed() { return fixed_bytes(*job_, device_); }
  void set_stay_limit(std::uint64_t bytes) { job_->device[device_].stay_limit.store(bytes); }
  void pin(const Account& account, std::uint32_t pinned) {
    job_->parking[account.slot()].pinned.store(pinned);
  }
  static void take(const Account& account, std::uint64_t bytes) {
    ASSERT_TRUE(account.reserve(bytes));
    account.commit(bytes);
  }

  FakeWorld world_;
  TestJob job_;
  std::uint32_t device_ = job_.add_device(100 * kG);
  Account mine_ = account(1), other_ = account(2);
};

TEST_F(Fixed, WhatIsChargedAsMovingIsNotAndEverythingElseIs) {
  take(mine_, 3 * kG);
  take(mine_.moving(), 20 * kG);
  mine_.charge(kG);
  EXPECT_EQ(fixed(), 4 * kG);
  EXPECT_TRUE(measure_beside(*job_, device_, mine_.slot(), {1, 0}, 0, 2 * kG));
  EXPECT_EQ(fixed(), 6 * kG);
  mine_.moving().uncharge(20 * kG);
  mine_.uncharge(4 * kG);
  EXPECT_EQ(fixed(), 2 * kG);
}

TEST_F(Fixed, WhatWasRefusedOrRolledBackLeavesNothing) {
  ASSERT_TRUE(mine_.try_reserve(3 * kG));
  mine_.roll_back(3 * kG);
  EXPECT_FALSE(mine_.reserve(101 * kG));
  EXPECT_EQ(fixed(), 0u);
}

TEST_F(Fixed, MovingMemoryThatSettlesDownCountsUntilItIsUncharged) {
  take(mine_.moving(), 5 * kG);
  mine_.settle_down(5 * kG);
  EXPECT_EQ(fixed(), 5 * kG);
  mine_.uncharge(5 * kG);
  EXPECT_EQ(fixed(), 0u);
}

TEST_F(Fixed, APinnedProcessAndAJobThatStaysHoldAllTheyHold) {
  take(mine_.moving(), 20 * kG);
  take(other_.moving(), 10 * kG);
  pin(mine_, 1);
  EXPECT_EQ(fixed(), 20 * kG);
  pin(mine_, 0);
  EXPECT_EQ(fixed(), 0u);
  job_->header.stays = 1;
  EXPECT_EQ(fixed(), 30 * kG);
}

TEST_F(Fixed, TheStayLimitIsOneForAllProcessesAndRefusesWithoutADenial) {
  set_stay_limit(8 * kG);
  take(mine_, 5 * kG);
  EXPECT_FALSE(other_.reserve(4 * kG));
  EXPECT_FALSE(other_.may_stay(4 * kG));
  EXPECT_EQ(fixed(), 5 * kG);
  EXPECT_EQ(total_bytes(*job_, device_), 5 * kG);
  EXPECT_EQ(mine_.usage().denials, 0u);
  take(other_, 3 * kG);
}

TEST_F(Fixed, TheStayLimitDoesNotBindWhatMoves) {
  set_stay_limit(8 * kG);
  take(mine_.moving(), 50 * kG);
  EXPECT_TRUE(mine_.may_stay(8 * kG));
}

TEST_F(Fixed, TheStayLimitBindsWhatAPinnedProcessTakesThoughItWouldMove) {
  set_stay_limit(8 * kG);
  take(mine_.moving(), 6 * kG);
  pin(mine_, 1);
  EXPECT_FALSE(mine_.moving().reserve(3 * kG));
  EXPECT_TRUE(other_.moving().reserve(3 * kG));
}

TEST_F(Fixed, MemoryOfTheDeadIsGivenBackBeforeAnybodyIsRefusedForIt) {
  set_stay_limit(8 * kG);
  take(other_, 6 * kG);
  world_.dead.insert(2);
  EXPECT_TRUE(mine_.reserve(4 * kG));
  EXPECT_EQ(fixed(), 4 * kG);
}

TEST_F(Fixed, ALaterProcessInTheSlotStartsWithNothing) {
  take(other_, 6 * kG);
  world_.dead.insert(2);
  ASSERT_NE(reap(*job_, *world_.get()), 0u);
  const Account later = account(3);
  ASSERT_EQ(later.slot(), other_.slot());
  take(later.moving(), 2 * kG);
  EXPECT_EQ(fixed(), 0u);
}

TEST_F(Fixed, WhereNothingMovesNothingIsCounted) {
  job_->header.pools = wire::Pools::kDriver;
  set_stay_limit(kG);
  take(mine_, 5 * kG);
  EXPECT_EQ(job_->fixed[device_][mine_.slot()].load(), 0u);
}

}  // namespace
}  // namespace vram::ledger
