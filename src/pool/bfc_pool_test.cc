// What TensorFlow's arena does beyond the contract of all pools, over the dry card.

#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <thread>
#include <vector>

#include "pool/dry_driver.h"
#include "pool/elastic_budget.h"
#include "pool/memory_pool.h"

namespace vram::pool {
namespace {

constexpr std::uint64_t kMiB = std::uint64_t{1} << 20;
constexpr std::uint64_t kGiB = std::uint64_t{1} << 30;

CUstream stream(std::uintptr_t n) { return reinterpret_cast<CUstream>(n * 0x1000); }

class BfcPoolTest : public ::testing::Test {
 protected:
  BfcPoolTest() { options_.kind = Kind::kBfc; }
  ~BfcPoolTest() override { let_dry_streams_go(); }

  [[nodiscard]] std::unique_ptr<MemoryPool> make(std::uint64_t card = 24 * kGiB) const {
    base::Expected<std::unique_ptr<MemoryPool>, Failure> made =
        make_pool(dry_driver(card), options_);
    EXPECT_TRUE(static_cast<bool>(made));
    return std::move(*made);
  }

  Options options_;
};

CUdeviceptr take(MemoryPool& pool, std::uint64_t bytes, CUstream on = nullptr) {
  const base::Expected<CUdeviceptr, Failure> block = pool.allocate(bytes, on);
  EXPECT_TRUE(static_cast<bool>(block)) << block.error().message;
  return block ? *block : 0;
}

TEST_F(BfcPoolTest, WithoutGrowthTheFirstAllocationTakesTheLimit) {
  options_.growth = false;
  options_.limit = 10 * kGiB;
  const auto pool = make();
  EXPECT_EQ(dry_counts().bytes, 0u);
  (void)take(*pool, 1);
  EXPECT_EQ(dry_counts().bytes, 10 * kGiB);
}

TEST_F(BfcPoolTest, WithoutGrowthAndLimitItTakesNearlyAllThatIsFree) {
  options_.growth = false;
  const auto neighbour = make();
  neighbour->set_limit(6 * kGiB);
  (void)take(*neighbour, 1);
  const auto pool = make();
  (void)take(*pool, 1);
  EXPECT_LE(pool->info().reserved, 18 * kGiB);
  EXPECT_GE(pool->info().reserved, 16 * kGiB);
}

TEST_F(BfcPoolTest, FreeRegionsGoBackOnlyWhenARequestNeedsThem) {
  options_.limit = 64 * kMiB;
  const auto pool = make();
  const CUdeviceptr a = take(*pool, 30 * kMiB);
  EXPECT_TRUE(pool->free(a, nullptr));
  EXPECT_EQ(pool->info().reserved, 32 * kMiB);
  const CUdeviceptr b = take(*pool, 60 * kMiB);
  EXPECT_EQ(pool->info().reserved, 64 * kMiB);
  EXPECT_TRUE(pool->free(b, nullptr));

  options_.garbage_collection = false;
  const auto keeps = make();
  EXPECT_TRUE(keeps->free(take(*keeps, 30 * kMiB), nullptr));
  EXPECT_FALSE(static_cast<bool>(keeps->allocate(60 * kMiB, nullptr)));
}

TEST_F(BfcPoolTest, ARequestWaitsForAnothersFree) {
  options_.limit = 64 * kMiB;
  options_.wait_ms = 30'000;
  const auto pool = make();
  const CUdeviceptr a = take(*pool, 60 * kMiB);
  CUdeviceptr b = 0;
  std::thread waits([&] { b = take(*pool, 50 * kMiB); });
  std::this_thread::sleep_for(std::chrono::milliseconds(30));
  const auto freed = std::chrono::steady_clock::now();
  EXPECT_TRUE(pool->free(a, nullptr));
  waits.join();
  EXPECT_LT(std::chrono::steady_clock::now() - freed, std::chrono::seconds(10)) << "was not woken";
  EXPECT_NE(b, 0u);
  EXPECT_EQ(pool->info().failures, 0u);
}

TEST_F(BfcPoolTest, OneStreamHasItsFreesAtOnce) {
  options_.limit = 64 * kMiB;
  const auto pool = make();
  hold_dry_streams();
  for (int i = 0; i < 10; ++i)
    EXPECT_TRUE(pool->free(take(*pool, 60 * kMiB, stream(1)), stream(1)));
}

TEST_F(BfcPoolTest, WithSeveralStreamsAFreeWaitsForItsWork) {
  options_.limit = 64 * kMiB;
  const auto pool = make();
  (void)take(*pool, 256, stream(1));
  const CUdeviceptr a = take(*pool, 40 * kMiB, stream(2));
  hold_dry_streams();
  EXPECT_TRUE(pool->free(a, stream(2)));
  EXPECT_FALSE(pool->free(a, stream(2)));
  EXPECT_FALSE(pool->record_use(a, stream(1)));
  EXPECT_EQ(pool->info().in_use, 256u);
  EXPECT_FALSE(static_cast<bool>(pool->allocate(40 * kMiB, stream(1)))) << "the work is not done";
  CUdeviceptr b = 0;
  std::thread waits([&] { b = take(*pool, 40 * kMiB, stream(1)); });
  let_dry_streams_go();
  waits.join();
  EXPECT_NE(b, 0u);
}

TEST_F(BfcPoolTest, WhatTheFirstStreamFreedReachesASecondOneOnlyWhenItIsDone) {
  const auto pool = make();
  const CUdeviceptr a = take(*pool, 40 * kMiB, stream(1));
  hold_dry_streams();
  EXPECT_TRUE(pool->free(a, stream(1)));
  const std::uint64_t before = pool->info().reserved;
  const CUdeviceptr b = take(*pool, 40 * kMiB, stream(2));
  EXPECT_NE(b, a);
  EXPECT_FALSE(pool->free(a, stream(1))) << "held by nobody who could free it";
  EXPECT_GT(pool->info().reserved, before);
  let_dry_streams_go();
  EXPECT_EQ(take(*pool, 40 * kMiB, stream(2)), a);
}

TEST_F(BfcPoolTest, WhatAForgottenStreamFreedWaitsForItsWork) {
  const auto pool = make();
  const CUdeviceptr a = take(*pool, 40 * kMiB, stream(1));
  hold_dry_streams();
  EXPECT_TRUE(pool->free(a, stream(1)));
  pool->forget_stream(stream(1));
  EXPECT_NE(take(*pool, 40 * kMiB, stream(1)), a) << "another stream of the same handle";
  let_dry_streams_go();
  EXPECT_EQ(take(*pool, 40 * kMiB, stream(1)), a);
}

TEST_F(BfcPoolTest, ABudgetCountsRegionsAndHearsOfTheirEnd) {
  const auto card = ElasticBudget::create(64 * kMiB);
  const auto member = *card->add_member(0, 64 * kMiB);
  options_.budget = member;
  {
    const auto pool = make();
    const CUdeviceptr a = take(*pool, 30 * kMiB);
    EXPECT_EQ(member->held(), 32 * kMiB);
    // Of the next region there are only 32 left, and 40 only when the first one has gone back.
    EXPECT_FALSE(static_cast<bool>(pool->allocate(40 * kMiB, nullptr)));
    EXPECT_TRUE(pool->free(a, nullptr));
    (void)take(*pool, 40 * kMiB);
    EXPECT_EQ(member->held(), pool->info().reserved);
    EXPECT_LE(member->held(), 64 * kMiB);
  }
  EXPECT_EQ(member->held(), 0u);
  EXPECT_EQ(dry_counts().bytes, 0u);
}

TEST_F(BfcPoolTest, PoolsOfOneBudgetTakeFromEachOtherAtOnceAndNobodyHangs) {
  const auto card = ElasticBudget::create(64 * kMiB);
  std::vector<std::shared_ptr<ElasticBudget::Member>> members;
  std::vector<std::shared_ptr<MemoryPool>> pools;
  for (int i = 0; i < 2; ++i) {
    members.push_back(*card->add_member(0, 64 * kMiB));
    options_.budget = members.back();
    options_.wait_ms = 10'000;
    pools.emplace_back(make());
    members.back()->set_trim([pool = pools.back()](std::uint64_t keep) { (void)pool->trim(keep); });
  }
  std::vector<std::thread> threads;
  for (const auto& pool : pools) {
    threads.emplace_back([&pool] {
      for (int i = 0; i < 300; ++i) {
        const std::uint64_t bytes = (1 + i % 30) * kMiB;
        EXPECT_TRUE(pool->free(take(*pool, bytes), nullptr));
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  for (const auto& member : members) member->set_trim({});
  for (std::size_t i = 0; i < 2; ++i) EXPECT_EQ(members[i]->held(), pools[i]->info().reserved);
}

TEST_F(BfcPoolTest, AForgottenStreamsHandleMayComeBackAsAnother) {
  options_.limit = 64 * kMiB;
  const auto pool = make();
  const CUdeviceptr a = take(*pool, kMiB, stream(1));
  EXPECT_TRUE(pool->free(a, stream(1)));
  pool->forget_stream(stream(1));
  hold_dry_streams();
  for (int i = 0; i < 2; ++i) EXPECT_TRUE(pool->free(take(*pool, 60 * kMiB, stream(1)), stream(1)));
}

TEST_F(BfcPoolTest, ALowerLimitGivesBackWhatIsFree) {
  const auto pool = make();
  const CUdeviceptr a = take(*pool, 2 * kMiB);
  EXPECT_TRUE(pool->free(take(*pool, 100 * kMiB), nullptr));
  pool->set_limit(10 * kMiB);
  EXPECT_EQ(pool->info().reserved, 2 * kMiB);
  EXPECT_FALSE(static_cast<bool>(pool->allocate(20 * kMiB, nullptr)));
  EXPECT_TRUE(pool->free(a, nullptr));
}

TEST_F(BfcPoolTest, TheReportShowsEveryChunkWhenARequestIsNamed) {
  options_.limit = 64 * kMiB;
  const auto pool = make();
  (void)take(*pool, 30 * kMiB);
  const std::string full = pool->report(100 * kMiB);
  EXPECT_NE(full.find("InUse"), std::string::npos) << full;
  EXPECT_NE(full.find("Next region"), std::string::npos) << full;
  EXPECT_EQ(pool->report(0).find("InUse"), std::string::npos);
}

}  // namespace
}  // namespace vram::pool
