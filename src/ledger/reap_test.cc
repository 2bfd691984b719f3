// Slots, and what becomes of a dead process's share.

#include <gtest/gtest.h>

#include "ledger/settled.h"
#include "ledger/test_job.h"
#include "ledger/total.h"

namespace vram::ledger {
namespace {

constexpr std::uint64_t kG = wire::kGranule;

class Reap : public testing::Test {
 protected:
  std::uint32_t claim(std::uint64_t identity, std::uint64_t space = 0) {
    return claim_slot(*job_, {identity, space}, *world_.get());
  }
  Account account(std::uint32_t slot) { return {&*job_, device_, slot, world_.get()}; }
  std::uint32_t reap_now() { return reap(*job_, *world_.get()); }
  std::uint64_t used() { return total_bytes(*job_, device_); }

  FakeWorld world_;
  TestJob job_;
  std::uint32_t device_ = job_.add_device(100 * kG);
};

TEST_F(Reap, AClaimedSlotNamesItsOwner) {
  const std::uint32_t slot = claim(7, 4026531836);
  EXPECT_EQ(owner_of(*job_, slot), (Owner{7, 4026531836}));
  EXPECT_TRUE(occupied(identity_in(*job_, slot)));
  EXPECT_EQ(job_->header.slots_used, slot + 1);
}

TEST_F(Reap, TwoProcessesNeverShareASlot) { EXPECT_NE(claim(1), claim(2)); }

TEST_F(Reap, TheLivingKeepWhatTheyHold) {
  const std::uint32_t slot = claim(1);
  ASSERT_TRUE(account(slot).reserve(5 * kG));
  EXPECT_EQ(reap_now(), 0u);
  EXPECT_EQ(used(), 5 * kG);
}

TEST_F(Reap, TheDeadGiveBackEverythingOnEveryDevice) {
  const std::uint32_t second = job_.add_device(100 * kG);
  const std::uint32_t slot = claim(1);
  const Account on_second(&*job_, second, slot, world_.get());
  ASSERT_TRUE(account(slot).reserve(5 * kG));  // killed before it was settled
  ASSERT_TRUE(on_second.reserve(7 * kG));
  on_second.commit(7 * kG);
  measure_beside(*job_, second, slot, {1, 0}, 0, 3 * kG);
  world_.dead.insert(1);
  EXPECT_EQ(reap_now(), 1u);
  EXPECT_EQ(used(), 0u);
  EXPECT_EQ(total_bytes(*job_, second), 0u);
  EXPECT_EQ(identity_in(*job_, slot), 0u);
  EXPECT_EQ(reap_now(), 0u);
}

TEST_F(Reap, AReaperThatDiedHalfWayIsFinishedByTheNext) {
  const std::uint32_t slot = claim(1);
  ASSERT_TRUE(account(slot).reserve(5 * kG));
  ASSERT_TRUE(swap_owner(*job_, slot, {1, 0}, {1 | kReaping, 0}));  // and nothing more
  EXPECT_FALSE(occupied(identity_in(*job_, slot)));
  EXPECT_EQ(reap_now(), 1u) << "although the fake world calls 1 alive";
  EXPECT_EQ(used(), 0u);
}

TEST_F(Reap, WhileSomebodyIsReapedNoRefusalIsCertain) {
  const std::uint32_t dying = claim(1);
  ASSERT_TRUE(account(dying).reserve(90 * kG));
  account(dying).commit(90 * kG);
  EXPECT_TRUE(never_fits(*job_, device_, 20));
  ASSERT_TRUE(swap_owner(*job_, dying, {1, 0}, {1 | kReaping, 0}));
  EXPECT_FALSE(never_fits(*job_, device_, 20));
  EXPECT_TRUE(never_fits(*job_, device_, 101)) << "over the limit is over the limit";
}

TEST_F(Reap, ANewOwnerInheritsNothing) {
  const std::uint32_t slot = claim(1);
  ASSERT_TRUE(account(slot).reserve(5 * kG));
  account(slot).commit(5 * kG);
  account(slot).begin_release(2 * kG);
  account(slot).add_part(wire::Part::kBlocks, 100);
  EXPECT_FALSE(account(slot).reserve(200 * kG));
  world_.dead.insert(1);
  ASSERT_EQ(reap_now(), 1u);
  ASSERT_EQ(claim(2), slot);
  EXPECT_EQ(account(slot).own_bytes(), 0u);
  EXPECT_EQ(account(slot).own_pending(), 0u);
  EXPECT_EQ(account(slot).part(wire::Part::kBlocks), 0u);
  EXPECT_EQ(job_->cell[device_][slot].peak, 0u);
  EXPECT_EQ(job_->cell[device_][slot].denials, 0u);
  EXPECT_FALSE(never_fits(*job_, device_, 100));
}

TEST_F(Reap, AnotherNamespaceIsTheReapersToJudge) {
  const std::uint32_t slot = claim(1, 77);
  static std::uint64_t asked;
  const World curious{[](std::uint64_t, std::uint64_t space) {
                        asked = space;
                        return true;
                      },
                      nullptr, nullptr};
  EXPECT_EQ(reap(*job_, curious), 0u);
  EXPECT_EQ(asked, 77u);
  EXPECT_EQ(owner_of(*job_, slot), (Owner{1, 77}));
}

TEST_F(Reap, WhatWasMeasuredForASlotTooLateIsGivenBackByTheNextReaper) {
  const std::uint32_t slot = claim(1);
  claim(2);
  world_.dead.insert(1);
  ASSERT_EQ(reap_now(), 1u);
  set_beside(*job_, device_, slot, {0, 0}, 0,
             5);  // as by a measurer that looked before the reaping
  ASSERT_EQ(used(), 5 * kG);
  (void)reap_now();
  EXPECT_EQ(used(), 0u);
}

TEST_F(Reap, AllSlotsCanBeTakenAndNoMore) {
  for (std::uint64_t i = 1; i <= wire::kMaxProcesses; ++i) ASSERT_NE(claim(i), kNoSlot) << i;
  EXPECT_EQ(claim(9999), kNoSlot);
  EXPECT_EQ(job_->header.slots_used, wire::kMaxProcesses);
}

TEST_F(Reap, AFullJobMakesRoomByReapingItsDead) {
  for (std::uint64_t i = 1; i <= wire::kMaxProcesses; ++i) ASSERT_NE(claim(i), kNoSlot);
  world_.dead.insert(1234);
  const std::uint32_t slot = claim(9999);
  ASSERT_NE(slot, kNoSlot);
  EXPECT_EQ(owner_of(*job_, slot), (Owner{9999, 0}));
  EXPECT_EQ(claim(9998), kNoSlot);
}

TEST_F(Reap, SixtyFourDevicesAndAllSlotsKeepTheirAccounts) {
  for (std::uint32_t d = 1; d < wire::kMaxDevices; ++d) job_.add_device(wire::kUnlimited);
  set_limit(job_->device[0], wire::kUnlimited);
  for (std::uint64_t i = 1; i <= wire::kMaxProcesses; ++i) claim(i);
  for (std::uint32_t d = 0; d < wire::kMaxDevices; ++d) {
    for (std::uint32_t slot = 0; slot < wire::kMaxProcesses; slot += 5) {
      ASSERT_TRUE(Account(&*job_, d, slot, world_.get()).reserve((slot % 7 + 1) * kG));
    }
  }
  for (std::uint32_t d = 0; d < wire::kMaxDevices; ++d) {
    std::uint64_t sum = 0;
    for (std::uint32_t slot = 0; slot < wire::kMaxProcesses; ++slot) {
      ASSERT_EQ(share_bytes(*job_, d, slot), slot % 5 == 0 ? (slot % 7 + 1) * kG : 0);
      sum += share_bytes(*job_, d, slot);
    }
    ASSERT_EQ(total_bytes(*job_, d), sum);
  }
}

}  // namespace
}  // namespace vram::ledger
