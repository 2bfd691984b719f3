#include <gtest/gtest.h>

#include "arena/bfc.h"
#include "arena/bfc_check_for_test.h"
#include "arena/pretend_regions_for_test.h"

namespace vram::arena {
namespace {

// Four blocks of 1 KiB fill the pool; frees carry a count.
struct Counted {
  Counted() : bfc(regions, options()) {
    bfc.set_timing_counter(&counter);
    for (std::uint64_t& address : block) address = take(1024);
  }
  static BfcOptions options() {
    BfcOptions options;
    options.limit = 4096;
    options.growth = false;
    return options;
  }
  std::uint64_t take(std::uint64_t bytes, std::uint64_t freed_before = 0) {
    BfcRequest request;
    request.bytes = bytes;
    request.freed_before = freed_before;
    const auto address = bfc.allocate(request);
    return address ? *address : 0;
  }
  std::size_t chunks() const { return bfc.report({}).regions.at(0).chunks.size(); }

  std::atomic<std::uint64_t> counter = 0;
  PretendRegions regions{RegionHabits{}};
  Bfc bfc;
  std::uint64_t block[4] = {};
};

TEST(BfcHeldBack, FreedChunksStayApartUntilTheFrontierPasses) {
  Counted arena;
  ASSERT_TRUE(arena.bfc.free(arena.block[0]));
  ASSERT_TRUE(arena.bfc.free(arena.block[1]));
  EXPECT_EQ(arena.counter, 2U);
  EXPECT_EQ(arena.take(2048, 1), 0U);
  EXPECT_EQ(arena.chunks(), 4U);
  EXPECT_TRUE(arena.bfc.set_safe_frontier(3));
  EXPECT_EQ(arena.take(2048, 1), arena.block[0]);
}

TEST(BfcHeldBack, TheFrontierItselfIsNotSafeYet) {
  Counted arena;
  ASSERT_TRUE(arena.bfc.free(arena.block[0]));
  ASSERT_TRUE(arena.bfc.free(arena.block[1]));
  EXPECT_TRUE(arena.bfc.set_safe_frontier(2));
  EXPECT_EQ(arena.take(2048, 1), 0U);
  EXPECT_EQ(arena.chunks(), 4U);
}

TEST(BfcHeldBack, TheFrontierOnlyMovesForward) {
  Counted arena;
  EXPECT_TRUE(arena.bfc.set_safe_frontier(5));
  EXPECT_FALSE(arena.bfc.set_safe_frontier(5));
  EXPECT_FALSE(arena.bfc.set_safe_frontier(4));
  ASSERT_TRUE(arena.bfc.free(arena.block[3]));
  EXPECT_EQ(arena.take(1024, 1), arena.block[3]);
}

TEST(BfcHeldBack, ARequestGetsOnlyWhatWasFreedEarlyEnough) {
  Counted arena;
  ASSERT_TRUE(arena.bfc.free(arena.block[2]));
  ASSERT_TRUE(arena.bfc.free(arena.block[1]));
  EXPECT_EQ(arena.take(1024, 1), arena.block[2]);
  EXPECT_EQ(arena.take(1024, 1), 0U);
  EXPECT_EQ(arena.take(1024, 2), arena.block[1]);
}

TEST(BfcHeldBack, ARequestForAnyChunkTakesOneAtOnce) {
  Counted arena;
  ASSERT_TRUE(arena.bfc.free(arena.block[2]));
  EXPECT_EQ(arena.take(1024), arena.block[2]);
}

TEST(BfcHeldBack, RatherThanFailARequestForAnyChunkMergesWhatIsNotSafe) {
  Counted arena;
  ASSERT_TRUE(arena.bfc.free(arena.block[1]));
  ASSERT_TRUE(arena.bfc.free(arena.block[2]));
  EXPECT_EQ(arena.take(2048), arena.block[1]);
  ASSERT_TRUE(arena.bfc.free(arena.block[0]));
  ASSERT_TRUE(arena.bfc.free(arena.block[3]));
  EXPECT_EQ(arena.take(2048), 0U);
}

TEST(BfcHeldBack, WhatMergesTakesTheLatestCount) {
  Counted arena;
  for (const int i : {1, 0, 3}) ASSERT_TRUE(arena.bfc.free(arena.block[i]));
  // Merges the first two, which does not suffice.
  EXPECT_EQ(arena.take(4096), 0U);
  EXPECT_EQ(arena.take(2048, 1), 0U);
  EXPECT_EQ(arena.take(2048, 2), arena.block[0]);
}

TEST(BfcHeldBack, MergesNoMoreThanARequestNeeds) {
  Counted arena;
  for (const std::uint64_t address : arena.block) ASSERT_TRUE(arena.bfc.free(address));
  EXPECT_EQ(arena.take(2048), arena.block[0]);
  EXPECT_EQ(arena.chunks(), 3U);
}

TEST(BfcHeldBack, WithoutACounterFreedChunksAreFreeAtOnce) {
  Counted arena;
  ASSERT_TRUE(arena.bfc.free(arena.block[0]));
  ASSERT_TRUE(arena.bfc.free(arena.block[1]));
  // It keeps the count 2 while it is in use; nothing of that stays when it is freed without one.
  ASSERT_EQ(arena.take(1024, 2), arena.block[0]);
  ASSERT_EQ(arena.take(1024, 2), arena.block[1]);
  arena.bfc.set_timing_counter(nullptr);
  ASSERT_TRUE(arena.bfc.free(arena.block[1]));
  ASSERT_TRUE(arena.bfc.free(arena.block[2]));
  EXPECT_EQ(arena.counter, 2U);
  EXPECT_EQ(arena.take(2048, 1), arena.block[1]);
}

TEST(BfcHeldBack, WhatWasHeldBackInARegionThatWentBackIsForgotten) {
  BfcOptions options = Counted::options();
  options.growth = true;
  options.garbage_collection = true;
  RegionHabits habits;
  PretendRegions regions(habits);
  std::atomic<std::uint64_t> counter = 0;
  Bfc bfc(regions, options);
  bfc.set_timing_counter(&counter);
  for (int round = 0; round < 8; ++round) {
    regions.habits().base += 1 << 20;
    const auto one = bfc.allocate({1024, 256, 0});
    const auto two = bfc.allocate({1024, 256, 0});
    ASSERT_TRUE(one && two);
    ASSERT_TRUE(bfc.free(*one));
    ASSERT_TRUE(bfc.free(*two));
    // Nothing was freed early enough, so that the whole region is exchanged for a fresh one.
    const auto fresh = bfc.allocate({4096, 256, 1});
    ASSERT_TRUE(fresh) << round;
    EXPECT_EQ(fault_of(bfc, Neighbours::kMayBeHeldBack), "");
    ASSERT_TRUE(bfc.free(*fresh));
  }
  EXPECT_GE(regions.freed, 8U);
  EXPECT_EQ(regions.wrong_frees, 0U);
}

}  // namespace
}  // namespace vram::arena
