#include "pool/elastic_budget.h"

#include <gtest/gtest.h>

#include <atomic>
#include <random>
#include <thread>
#include <utility>
#include <vector>

namespace vram::pool {
namespace {

using Member = std::shared_ptr<ElasticBudget::Member>;

Member add(const std::shared_ptr<ElasticBudget>& card, std::uint64_t reserve, std::uint64_t limit) {
  auto member = card->add_member(reserve, limit);
  EXPECT_TRUE(member) << member.error();
  return *member;
}

TEST(ElasticBudget, ReservesTogetherFitTheCard) {
  const auto card = ElasticBudget::create(100);
  const Member first = add(card, 60, 100);
  const auto second = card->add_member(41, 100);
  ASSERT_FALSE(second);
  EXPECT_EQ(second.error(),
            "a reserve of 41B is more than the 40B that other reserves leave of 100B; use smaller "
            "reserves");
  EXPECT_EQ(card->committed(), 60U);
  EXPECT_TRUE(card->add_member(40, 100));
}

TEST(ElasticBudget, AReserveAboveItsLimitIsRefused) {
  EXPECT_FALSE(ElasticBudget::create(100)->add_member(50, 40));
}

TEST(ElasticBudget, NobodyExceedsItsLimit) {
  const Member member = add(ElasticBudget::create(100), 10, 50);
  EXPECT_TRUE(member->take(50));
  EXPECT_FALSE(member->take(1));
  EXPECT_EQ(member->held(), 50U);
}

TEST(ElasticBudget, AnIdleReserveIsNotLent) {
  const auto card = ElasticBudget::create(100);
  const Member first = add(card, 30, 100);
  const Member second = add(card, 30, 100);
  EXPECT_TRUE(second->take(70));
  EXPECT_FALSE(second->take(1));
  EXPECT_TRUE(first->take(30));
}

TEST(ElasticBudget, WhatIsLentAndIdleComesBackByTrim) {
  const auto card = ElasticBudget::create(100);
  const Member borrower = add(card, 20, 100);
  const Member asker = add(card, 20, 100);
  ASSERT_TRUE(borrower->take(80));
  std::uint64_t kept = 0;
  std::uint64_t idle = 50;  // of 80
  borrower->set_trim([&](std::uint64_t keep) {
    kept = keep;
    borrower->give(std::exchange(idle, 0));
  });
  EXPECT_TRUE(asker->take(60));
  EXPECT_EQ(kept, 20U) << "no more is asked for than what is lent";
  EXPECT_FALSE(asker->take(20)) << "what is in use stays";
}

TEST(ElasticBudget, WithinItsReserveNobodyIsTrimmed) {
  const auto card = ElasticBudget::create(100);
  const Member borrower = add(card, 0, 100);
  const Member owner = add(card, 40, 100);
  ASSERT_TRUE(borrower->take(60));
  borrower->set_trim([](std::uint64_t) { FAIL() << "nothing had to come back"; });
  EXPECT_TRUE(owner->take(40));
}

TEST(ElasticBudget, TheAskerIsNotTrimmedItself) {
  const auto card = ElasticBudget::create(100);
  const Member member = add(card, 0, 200);
  ASSERT_TRUE(member->take(100));
  member->set_trim([](std::uint64_t) { FAIL() << "its own idle memory is the pool's affair"; });
  EXPECT_FALSE(member->take(1));
}

TEST(ElasticBudget, AMemberThatLeavesFreesItsReserve) {
  const auto card = ElasticBudget::create(100);
  Member leaving = add(card, 60, 100);
  ASSERT_TRUE(leaving->take(80));
  leaving.reset();
  EXPECT_EQ(card->committed(), 0U);
  EXPECT_TRUE(card->add_member(100, 100));
}

// Four members race over the shared part, each of them with a pool that trims. Whatever they do, a
// take within the reserve succeeds, and together they never hold more than the card.
TEST(ElasticBudget, WithinItsReserveAMemberNeverFailsWhateverTheOthersDo) {
  constexpr std::uint64_t kTotal = 1000, kReserve = 150;
  constexpr int kMembers = 4, kRounds = 100'000;
  const auto card = ElasticBudget::create(kTotal);
  std::vector<Member> members;
  std::vector<std::atomic<std::uint64_t>> idle(kMembers);
  std::atomic<std::uint64_t> everywhere{0};
  for (int i = 0; i < kMembers; ++i) {
    members.push_back(add(card, kReserve, kTotal));
    auto* own = members.back().get();
    members.back()->set_trim([&, own, i](std::uint64_t) {
      const std::uint64_t bytes = idle[i].exchange(0);
      everywhere -= bytes;
      own->give(bytes);
    });
  }
  std::atomic<int> broken{0}, kept{0};
  std::atomic<bool> over{false};
  std::vector<std::thread> threads;
  for (int i = 0; i < kMembers; ++i) {
    threads.emplace_back([&, i] {
      std::minstd_rand random(static_cast<unsigned>(i) + 1);
      std::uint64_t live = 0;
      for (int round = 0; round < kRounds; ++round) {
        const std::uint64_t bytes = 1 + random() % 120;
        // Only this thread takes for this member; a trim can only make it hold less.
        const bool within = members[i]->held() + bytes <= kReserve;
        if (members[i]->take(bytes)) {
          if ((everywhere += bytes) > kTotal) over = true;
          live += bytes;
          kept += within ? 1 : 0;
        } else if (within) {
          ++broken;
        }
        if (random() % 4 != 0) continue;
        const std::uint64_t part = random() % (live + 1);
        live -= part;
        idle[i] += part;
      }
      everywhere -= live;
      members[i]->give(live);
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(broken, 0);
  EXPECT_GT(kept, kMembers) << "the claim was put to the test";
  EXPECT_FALSE(over);
  for (int i = 0; i < kMembers; ++i) members[i]->give(idle[i].exchange(0));
  EXPECT_EQ(card->committed(), kReserve * kMembers);
}

}  // namespace
}  // namespace vram::pool
