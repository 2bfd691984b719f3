#include "ledger/ledger.h"

#include <gtest/gtest.h>

#include "ledger/credits.h"
#include "ledger/settled.h"
#include "ledger/test_job.h"

namespace vram::ledger {
namespace {

constexpr std::uint64_t kG = wire::kGranule;

class Ledger : public testing::Test {
 protected:
  Account account(std::uint64_t identity) {
    return {&*job_, device_, claim_slot(*job_, {identity, 0}, *world_.get()), world_.get()};
  }
  void set_limit_to(std::uint64_t bytes) { set_limit(job_->device[device_], bytes); }
  std::uint64_t used() { return total_bytes(*job_, device_); }
  std::uint64_t denials() { return mine_.usage().denials; }

  FakeWorld world_;
  TestJob job_;
  std::uint32_t device_ = job_.add_device(8 * kG);
  Account mine_ = account(1), other_ = account(2);
};

TEST_F(Ledger, ARequestExactlyAtTheCapFitsAndOneGranuleMoreDoesNot) {
  EXPECT_TRUE(mine_.reserve(8 * kG));
  EXPECT_EQ(used(), 8 * kG);
  mine_.roll_back(8 * kG);
  EXPECT_FALSE(mine_.reserve(9 * kG));
  EXPECT_FALSE(mine_.reserve(8 * kG + 1));
  EXPECT_EQ(used(), 0u);
}

TEST_F(Ledger, TheCapIsOneForAllProcesses) {
  ASSERT_TRUE(mine_.reserve(5 * kG));
  mine_.commit(5 * kG);
  EXPECT_FALSE(other_.reserve(4 * kG));
  EXPECT_TRUE(other_.reserve(3 * kG));
}

TEST_F(Ledger, BytesAreChargedInWholeGranules) {
  ASSERT_TRUE(mine_.reserve(1));
  EXPECT_EQ(used(), kG);
  mine_.commit(1);
  ASSERT_TRUE(mine_.reserve(kG + 1));
  EXPECT_EQ(used(), 3 * kG);
  mine_.roll_back(kG + 1);
  EXPECT_EQ(used(), kG);
  mine_.begin_release(1);
  mine_.end_release(1);
  EXPECT_EQ(used(), 0u);
  EXPECT_EQ(mine_.own_pending(), 0u);
}

TEST_F(Ledger, MeasuredMemoryOnTopOfUnusedCreditsIsNoPeakAboveTheCap) {
  ASSERT_TRUE(other_.try_charge_credit(3 * kG));
  ASSERT_TRUE(mine_.reserve(5 * kG));
  mine_.commit(5 * kG);
  mine_.charge(2 * kG);
  EXPECT_EQ(used(), 10 * kG);
  EXPECT_EQ(in_use(*job_, device_, used()), 8 * kG);
  EXPECT_EQ(mine_.usage().peak, 8 * kG);
  mine_.charge(2 * kG);
  EXPECT_EQ(in_use(*job_, device_, used()), 9 * kG) << "no credit can account for that";
  EXPECT_EQ(mine_.usage().peak, 9 * kG);
  other_.uncharge_credit(3 * kG);
  EXPECT_EQ(in_use(*job_, device_, used()), 9 * kG);
}

TEST_F(Ledger, ACreditThatDoesNotFitIsNone) {
  EXPECT_FALSE(mine_.try_charge_credit(9 * kG));
  EXPECT_EQ(mine_.part(wire::Part::kCredits), 0u);
  EXPECT_EQ(used(), 0u);
}

TEST_F(Ledger, NothingIsReservedByAnEmptyRequest) {
  ASSERT_TRUE(mine_.reserve(0));
  EXPECT_EQ(used(), 0u);
}

TEST_F(Ledger, RollBackRestoresWhatWasFree) {
  ASSERT_TRUE(mine_.reserve(8 * kG));
  mine_.roll_back(8 * kG);
  EXPECT_EQ(used(), 0u);
  EXPECT_EQ(mine_.own_pending(), 0u);
  EXPECT_TRUE(other_.reserve(8 * kG));
}

TEST_F(Ledger, AReleaseCountsUntilItEnds) {
  ASSERT_TRUE(mine_.reserve(6 * kG));
  mine_.commit(6 * kG);
  mine_.begin_release(6 * kG);
  EXPECT_EQ(used(), 6 * kG);
  EXPECT_EQ(mine_.own_pending(), 6 * kG);
  mine_.end_release(6 * kG);
  EXPECT_EQ(used(), 0u);
  EXPECT_EQ(mine_.own_pending(), 0u);
}

TEST_F(Ledger, AReleaseThatTheDriverRefusedKeepsTheCharge) {
  ASSERT_TRUE(mine_.reserve(6 * kG));
  mine_.commit(6 * kG);
  mine_.begin_release(6 * kG);
  mine_.keep(6 * kG);
  EXPECT_EQ(used(), 6 * kG);
  EXPECT_EQ(mine_.own_pending(), 0u);
  EXPECT_FALSE(other_.reserve(3 * kG));
  EXPECT_EQ(world_.naps, 0u);
}

TEST_F(Ledger, PendingIsWhatCallsUnderWayHold) {
  ASSERT_TRUE(mine_.reserve(2 * kG));
  ASSERT_TRUE(mine_.reserve(3 * kG));
  EXPECT_EQ(mine_.own_pending(), 5 * kG);
  mine_.commit(2 * kG);
  EXPECT_EQ(mine_.own_pending(), 3 * kG);
  mine_.charge(kG);
  EXPECT_EQ(mine_.own_pending(), 3 * kG);
  mine_.commit(3 * kG);
  mine_.uncharge(kG);
  EXPECT_EQ(mine_.own_pending(), 0u);
  EXPECT_EQ(other_.own_pending(), 0u);
}

TEST_F(Ledger, WhatIsTakenAlreadyIsChargedOverTheLimitAndThenNothingFits) {
  mine_.charge(10 * kG);
  EXPECT_EQ(used(), 10 * kG);
  EXPECT_FALSE(mine_.reserve(1));
  mine_.uncharge(10 * kG);
  EXPECT_TRUE(mine_.reserve(8 * kG));
}

TEST_F(Ledger, AnOverdrawnAccountIsEmptyAndTakesNothingFromOthers) {
  ASSERT_TRUE(other_.reserve(2 * kG));
  ASSERT_TRUE(mine_.reserve(kG));
  mine_.commit(kG);
  mine_.uncharge(3 * kG);
  EXPECT_EQ(mine_.own_bytes(), 0u);
  EXPECT_EQ(other_.own_bytes(), 2 * kG);
  EXPECT_EQ(used(), 2 * kG);
}

TEST_F(Ledger, ALoweredLimitRefusesUntilLessThanItIsUsed) {
  ASSERT_TRUE(mine_.reserve(6 * kG));
  mine_.commit(6 * kG);
  set_limit_to(4 * kG);
  EXPECT_EQ(used(), 6 * kG);
  EXPECT_FALSE(mine_.reserve(1));
  mine_.begin_release(3 * kG);
  mine_.end_release(3 * kG);
  EXPECT_TRUE(mine_.reserve(kG));
  mine_.commit(kG);
  EXPECT_FALSE(mine_.reserve(1));
}

TEST_F(Ledger, ARaisedLimitGrantsAtOnceAlsoToWhoWaits) {
  ASSERT_TRUE(other_.reserve(8 * kG));
  world_.on_nap = [&] { set_limit_to(16 * kG); };
  EXPECT_TRUE(mine_.reserve(8 * kG));
}

TEST_F(Ledger, WithoutALimitEverythingIsCountedAndGranted) {
  set_limit_to(wire::kUnlimited);
  EXPECT_TRUE(mine_.reserve(std::uint64_t{200} << 40));
  EXPECT_EQ(used(), std::uint64_t{200} << 40);
}

TEST_F(Ledger, ALimitOfNothingGrantsNothing) {
  set_limit_to(0);
  EXPECT_FALSE(mine_.reserve(1));
  EXPECT_TRUE(mine_.reserve(0));
}

TEST_F(Ledger, RefusalsAreCountedWithTheLargest) {
  EXPECT_FALSE(mine_.reserve(20 * kG));
  EXPECT_FALSE(mine_.reserve(9 * kG));
  EXPECT_FALSE(other_.reserve(10 * kG));
  EXPECT_EQ(denials(), 3u);
  EXPECT_EQ(mine_.record().denied_bytes, 20 * kG);
  EXPECT_EQ(job_->cell[device_][mine_.slot()].denials, 2u);
}

TEST_F(Ledger, ATryIsNoRefusal) {
  EXPECT_FALSE(mine_.try_reserve(9 * kG));
  EXPECT_EQ(denials(), 0u);
  EXPECT_EQ(world_.naps, 0u);
  EXPECT_TRUE(mine_.try_reserve(8 * kG));
}

TEST_F(Ledger, PeaksAreTheHighestTotalAndTheHighestShare) {
  ASSERT_TRUE(mine_.reserve(3 * kG));
  ASSERT_TRUE(other_.reserve(4 * kG));
  mine_.roll_back(3 * kG);
  ASSERT_TRUE(mine_.reserve(kG));
  EXPECT_EQ(mine_.usage().peak, 7 * kG);
  EXPECT_EQ(job_->cell[device_][mine_.slot()].peak, 3 * kG);
  EXPECT_EQ(job_->cell[device_][other_.slot()].peak, 4 * kG);
}

TEST_F(Ledger, WhatIsMeasuredBesideCountsAndLeavesTheChargeAlone) {
  ASSERT_TRUE(mine_.reserve(2 * kG));
  measure_beside(*job_, device_, mine_.slot(), owner_of(*job_, mine_.slot()), 0, 5 * kG);
  EXPECT_EQ(used(), 7 * kG);
  EXPECT_EQ(mine_.own_bytes(), 7 * kG);
  EXPECT_EQ(mine_.own_pending(), 2 * kG);
  mine_.commit(2 * kG);
  EXPECT_EQ(mine_.context_bytes(), 5 * kG);
  EXPECT_FALSE(other_.reserve(2 * kG));
  EXPECT_EQ(world_.naps, 0u) << "what is measured is there to stay";
  measure_beside(*job_, device_, mine_.slot(), owner_of(*job_, mine_.slot()), 5 * kG, kG);
  EXPECT_EQ(used(), 3 * kG);
  mine_.uncharge(2 * kG);
  EXPECT_EQ(used(), kG);
}

TEST_F(Ledger, WhatIsMeasuredMayBeOverTheLimit) {
  measure_beside(*job_, device_, mine_.slot(), owner_of(*job_, mine_.slot()), 0, 10 * kG);
  EXPECT_EQ(used(), 10 * kG);
  EXPECT_EQ(mine_.usage().peak, 10 * kG);
}

TEST_F(Ledger, AnOldMeasurementDoesNotReplaceANewerOne) {
  const Owner owner = owner_of(*job_, mine_.slot());
  EXPECT_TRUE(measure_beside(*job_, device_, mine_.slot(), owner, 0, 5 * kG));
  EXPECT_FALSE(measure_beside(*job_, device_, mine_.slot(), owner, 0, 3 * kG));
  EXPECT_EQ(used(), 5 * kG);
}

TEST_F(Ledger, NothingIsMeasuredForSomebodyWhoLeft) {
  measure_beside(*job_, device_, mine_.slot(), {99, 0}, 0, 5 * kG);
  measure_beside(*job_, device_, mine_.slot(), {1, 99}, 0, 5 * kG);
  EXPECT_EQ(used(), 0u);
}

TEST_F(Ledger, PartsAreWhatTheyAreSetTo) {
  mine_.add_part(wire::Part::kPools, 100);
  mine_.add_part(wire::Part::kPools, -40);
  EXPECT_EQ(mine_.part(wire::Part::kPools), 60u);
  EXPECT_FALSE(mine_.swap_part(wire::Part::kPools, 61, 0));
  EXPECT_TRUE(mine_.swap_part(wire::Part::kPools, 60, 7));
  EXPECT_EQ(mine_.part(wire::Part::kPools), 7u);
  EXPECT_EQ(other_.part(wire::Part::kPools), 0u);
}

}  // namespace
}  // namespace vram::ledger
