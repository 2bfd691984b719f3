#include "arena/bfc.h"

#include <gtest/gtest.h>

#include <map>
#include <set>
#include <vector>

#include "arena/bfc_check_for_test.h"
#include "arena/bfc_trace_for_test.h"
#include "arena/pretend_regions_for_test.h"

namespace vram::arena {
namespace {

constexpr std::uint64_t kMiB = 1 << 20;

BfcOptions greedy(std::uint64_t limit) {
  BfcOptions options;
  options.limit = limit;
  options.growth = false;
  return options;
}

// An arena over regions that start at a known address.
struct Fixture {
  explicit Fixture(const BfcOptions& options, const RegionHabits& habits = {})
      : regions(habits), bfc(regions, options) {}

  // 0: refused.
  std::uint64_t take(std::uint64_t bytes, std::uint64_t alignment = kBfcGranule) {
    BfcRequest request;
    request.bytes = bytes;
    request.alignment = alignment;
    const auto address = bfc.allocate(request);
    return address ? *address : 0;
  }

  PretendRegions regions;
  Bfc bfc;
};

TEST(Bfc, EverySizeUpToFourGranulesIsHadOnceAndApart) {
  Fixture arena(greedy(1024 * kMiB));
  std::map<std::uint64_t, std::uint64_t> held;
  for (std::uint64_t bytes = 1; bytes < 1024; ++bytes) {
    const std::uint64_t address = arena.take(bytes);
    ASSERT_NE(address, 0U);
    ASSERT_TRUE(held.emplace(address, bytes).second);
  }
  std::uint64_t end = 0;
  for (const auto& [address, bytes] : held) {
    EXPECT_GE(address, end);
    end = address + bytes;
  }
  const BfcStats stats = arena.bfc.stats();
  EXPECT_EQ(stats.num_allocs, 1023U);
  EXPECT_EQ(stats.bytes_in_use, 654'336U);
  EXPECT_EQ(stats.peak_bytes_in_use, 654'336U);
  EXPECT_EQ(stats.largest_alloc_size, 1024U);
  for (const auto& [address, bytes] : held) EXPECT_TRUE(arena.bfc.free(address));
  EXPECT_EQ(arena.bfc.stats().bytes_in_use, 0U);
  EXPECT_EQ(arena.bfc.stats().peak_bytes_in_use, 654'336U);
}

TEST(Bfc, WhatIsFreedInBetweenIsHadAgainWithoutOverlap) {
  Fixture arena(greedy(1024 * kMiB));
  Dice dice(7);
  std::vector<std::uint64_t> held;
  for (int i = 0; i < 256; ++i) held.push_back(arena.take(dice.between(1, kMiB)));
  for (std::size_t i = 0; i < held.size(); i += 2) ASSERT_TRUE(arena.bfc.free(held[i]));
  for (std::size_t i = 0; i < held.size(); i += 2) held[i] = arena.take(dice.between(1, kMiB));
  EXPECT_EQ(std::set<std::uint64_t>(held.begin(), held.end()).size(), held.size());
  EXPECT_EQ(fault_of(arena.bfc), "");
}

TEST(Bfc, FreedNeighboursMergeSoThatThePoolEndsAsItBegan) {
  Fixture arena(greedy(1024 * kMiB));
  const std::uint64_t first = arena.take(4096);
  ASSERT_TRUE(arena.bfc.free(first));
  for (int round = 0; round < 1024; ++round) {
    std::vector<std::uint64_t> held;
    for (const std::uint64_t bytes : {4096U, 8U << 20, 16'384U, 40U << 20}) {
      held.push_back(arena.take(bytes));
    }
    for (const std::uint64_t address : held) ASSERT_TRUE(arena.bfc.free(address));
  }
  const BfcStats stats = arena.bfc.stats();
  EXPECT_EQ(stats.num_allocs, 4097U);
  EXPECT_EQ(stats.bytes_in_use, 0U);
  EXPECT_EQ(stats.peak_bytes_in_use, 4096 + 8 * kMiB + 16'384 + 40 * kMiB);
  EXPECT_EQ(stats.largest_alloc_size, 40 * kMiB);
  EXPECT_EQ(stats.largest_free_block_bytes, 1024 * kMiB);
  EXPECT_EQ(arena.take(4096), first);
}

TEST(Bfc, MergesWithTheNextAndThePreviousChunk) {
  for (const auto& order : std::vector<std::vector<int>>{{0, 1, 2}, {2, 1, 0}, {0, 2, 1}}) {
    Fixture arena(greedy(kMiB));
    std::vector<std::uint64_t> held;
    for (int i = 0; i < 3; ++i) held.push_back(arena.take(1000));
    const std::uint64_t wall = arena.take(256);
    for (const int i : order) ASSERT_TRUE(arena.bfc.free(held[static_cast<std::size_t>(i)]));
    EXPECT_EQ(fault_of(arena.bfc), "");
    EXPECT_EQ(arena.take(3072), held[0]);
    EXPECT_TRUE(arena.bfc.free(wall));
  }
}

TEST(Bfc, ZeroBytesAreNoAllocation) {
  Fixture arena(greedy(kMiB));
  const auto refused = arena.bfc.allocate({});
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error(), BfcError::kZeroBytes);
  EXPECT_EQ(arena.bfc.stats().num_allocs, 0U);
  EXPECT_EQ(arena.regions.granted, 0U);
}

TEST(Bfc, AnAlignmentThatIsNoPowerOfTwoIsRefused) {
  Fixture arena(greedy(kMiB));
  for (const std::uint64_t alignment : {0U, 3U, 768U}) {
    const auto refused = arena.bfc.allocate({256, alignment, 0});
    ASSERT_FALSE(refused);
    EXPECT_EQ(refused.error(), BfcError::kBadAlignment);
  }
}

TEST(Bfc, RemembersWhatWasAskedForAndWhatWasHad) {
  Fixture arena(greedy(kMiB));
  const std::uint64_t one = arena.take(4);
  const std::uint64_t other = arena.take(257);
  EXPECT_EQ(arena.bfc.find(one)->requested, 4U);
  EXPECT_EQ(arena.bfc.find(one)->allocated, 256U);
  EXPECT_EQ(arena.bfc.find(other)->allocated, 512U);
  EXPECT_EQ(arena.bfc.find(one)->id, 1U);
  EXPECT_EQ(arena.bfc.find(other)->id, 2U);
  ASSERT_TRUE(arena.bfc.free(one));
  EXPECT_EQ(arena.bfc.find(one), std::nullopt);
  EXPECT_EQ(arena.bfc.find(arena.take(4))->id, 3U);
}

TEST(Bfc, AnAddressThatIsNotAnAllocationIsNotFreed) {
  Fixture arena(greedy(kMiB));
  EXPECT_FALSE(arena.bfc.free(0));
  const std::uint64_t address = arena.take(1024);
  const BfcStats before = arena.bfc.stats();
  EXPECT_FALSE(arena.bfc.free(address + 256));
  EXPECT_FALSE(arena.bfc.free(address + 1024));
  EXPECT_EQ(arena.bfc.stats(), before);
  EXPECT_TRUE(arena.bfc.free(address));
  EXPECT_FALSE(arena.bfc.free(address));
}

TEST(Bfc, WhatIsAboveTheLimitIsRefusedAndTheNextRequestIsServed) {
  for (const bool growth : {false, true}) {
    BfcOptions options = greedy(2 * kMiB);
    options.growth = growth;
    Fixture arena(options);
    EXPECT_NE(arena.take(kMiB), 0U);
    EXPECT_EQ(arena.take(8 * kMiB), 0U);
    EXPECT_EQ(arena.take(~std::uint64_t{0}), 0U);
    EXPECT_EQ(arena.bfc.stats().num_allocs, 1U);
    EXPECT_NE(arena.take(kMiB), 0U);
    EXPECT_EQ(arena.take(1), 0U);
  }
}

TEST(Bfc, TakesTheSmallestChunkThatFitsAndTheLowestAmongEquals) {
  Fixture arena(greedy(kMiB));
  std::vector<std::uint64_t> held;
  for (const std::uint64_t bytes : {4096U, 256U, 2048U, 256U, 2048U, 256U, 2304U, 256U}) {
    held.push_back(arena.take(bytes));
  }
  for (const std::size_t i : {6U, 4U, 2U, 0U}) ASSERT_TRUE(arena.bfc.free(held[i]));
  EXPECT_EQ(arena.take(2048), held[2]);
  EXPECT_EQ(arena.take(2048), held[4]);
  EXPECT_EQ(arena.take(2048), held[6]);
  EXPECT_EQ(arena.take(2048), held[0]);
}

TEST(Bfc, SplitsAChunkOfTwiceTheRequestAndNoSmallerOne) {
  Fixture arena(greedy(kMiB));
  const std::uint64_t twice = arena.take(8192);
  ASSERT_NE(arena.take(256), 0U);
  ASSERT_TRUE(arena.bfc.free(twice));
  EXPECT_EQ(arena.take(4097), twice);
  EXPECT_EQ(arena.bfc.find(twice)->allocated, 8192U);
  ASSERT_TRUE(arena.bfc.free(twice));
  EXPECT_EQ(arena.take(4096), twice);
  EXPECT_EQ(arena.bfc.find(twice)->allocated, 4096U);
}

TEST(Bfc, SplitsWhatWouldWaste128MiB) {
  Fixture arena(greedy(1024 * kMiB));
  const std::uint64_t address = arena.take(512 * kMiB);
  ASSERT_TRUE(arena.bfc.free(address));
  EXPECT_EQ(arena.take(1024 * kMiB - 128 * kMiB + 1), address);
  EXPECT_EQ(arena.bfc.find(address)->allocated, 1024 * kMiB);
  ASSERT_TRUE(arena.bfc.free(address));
  EXPECT_EQ(arena.take(1024 * kMiB - 128 * kMiB), address);
  EXPECT_EQ(arena.bfc.find(address)->allocated, 1024 * kMiB - 128 * kMiB);
}

TEST(Bfc, SplitsWhatWouldWasteTheGivenShareOfTheLimit) {
  BfcOptions options = greedy(kMiB);
  options.internal_fragmentation_fraction = 0.25;
  Fixture arena(options);
  const std::uint64_t address = arena.take(kMiB / 4 * 3 + 1);
  EXPECT_EQ(arena.bfc.find(address)->allocated, kMiB);
  ASSERT_TRUE(arena.bfc.free(address));
  ASSERT_EQ(arena.take(kMiB / 4 * 3), address);
  EXPECT_EQ(arena.bfc.find(address)->allocated, kMiB / 4 * 3);
}

TEST(Bfc, AShareOfLessThanAByteLeavesNoEmptyChunk) {
  BfcOptions options = greedy(kMiB);
  options.internal_fragmentation_fraction = 1e-12;
  Fixture arena(options);
  EXPECT_NE(arena.take(kMiB), 0U);
  EXPECT_EQ(fault_of(arena.bfc), "");
}

TEST(Bfc, EveryPowerOfTwoIsRespectedAsAlignmentWhateverTheSourceGrants) {
  RegionHabits habits;
  habits.base += 256;
  for (std::uint64_t alignment = 1; alignment <= 65'536; alignment *= 2) {
    Fixture arena(greedy(4 * kMiB), habits);
    for (int i = 0; i < 8; ++i) {
      const std::uint64_t address = arena.take(300, alignment);
      ASSERT_NE(address, 0U);
      EXPECT_EQ(address % alignment, 0U);
      EXPECT_EQ(address % kBfcGranule, 0U);
    }
    EXPECT_EQ(fault_of(arena.bfc), "");
    EXPECT_EQ(arena.regions.last_alignment, std::max<std::uint64_t>(alignment, 256));
  }
}

TEST(Bfc, WhatLiesBeforeAnAlignedAllocationServesOthers) {
  RegionHabits habits;
  habits.base += 256;
  Fixture arena(greedy(kMiB), habits);
  EXPECT_EQ(arena.take(512, 4096), habits.base - 256 + 4096);
  EXPECT_EQ(arena.take(3840), habits.base);
}

TEST(Bfc, AddressesMayBeOffsetsFromZero) {
  RegionHabits habits;
  habits.base = 0;
  PretendRegions regions(habits);
  Bfc bfc(regions, greedy(4096));
  for (int round = 0; round < 2; ++round) {
    const auto address = bfc.allocate({4096, 256, 0});
    ASSERT_TRUE(address);
    EXPECT_EQ(*address, 0U);
    EXPECT_EQ(bfc.find(0)->allocated, 4096U);
    EXPECT_TRUE(bfc.free(0));
  }
}

TEST(Bfc, ClearedStatisticsBeginAnewAtWhatIsInUse) {
  Fixture arena(greedy(kMiB));
  const std::uint64_t held = arena.take(1000);
  ASSERT_TRUE(arena.bfc.free(arena.take(10'000)));
  arena.bfc.clear_stats();
  BfcStats stats = arena.bfc.stats();
  EXPECT_EQ(stats.num_allocs, 0U);
  EXPECT_EQ(stats.bytes_in_use, 1024U);
  EXPECT_EQ(stats.peak_bytes_in_use, 1024U);
  EXPECT_EQ(stats.largest_alloc_size, 0U);
  EXPECT_EQ(stats.pool_bytes, kMiB);
  EXPECT_EQ(stats.peak_pool_bytes, kMiB);
  EXPECT_EQ(stats.bytes_limit, kMiB);
  ASSERT_TRUE(arena.bfc.free(held));
  stats = arena.bfc.stats();
  EXPECT_EQ(stats.bytes_in_use, 0U);
  EXPECT_EQ(stats.peak_bytes_in_use, 1024U);
}

TEST(Bfc, FragmentationIsTheShareOutsideTheLargestHoleAndNoneWhenNothingIsFree) {
  Fixture arena(greedy(4096));
  EXPECT_EQ(arena.bfc.fragmentation(), 0);
  const std::uint64_t one = arena.take(1024);
  const std::uint64_t two = arena.take(1024);
  const std::uint64_t rest = arena.take(2048);
  EXPECT_EQ(arena.bfc.fragmentation(), 0);
  ASSERT_TRUE(arena.bfc.free(one));
  EXPECT_EQ(arena.bfc.fragmentation(), 0);
  ASSERT_TRUE(arena.bfc.free(rest));
  EXPECT_DOUBLE_EQ(arena.bfc.fragmentation(), 1.0 / 3);
  ASSERT_TRUE(arena.bfc.free(two));
  EXPECT_EQ(arena.bfc.fragmentation(), 0);
}

TEST(Bfc, TheInvariantsHoldThroughRandomOperations) {
  for (std::uint64_t seed = 1000; seed < 1040; ++seed) {
    Trace trace(seed);
    BfcActor actor(trace.config());
    const Neighbours neighbours =
        trace.config().held_back ? Neighbours::kMayBeHeldBack : Neighbours::kMerged;
    for (int i = 0; i < 2000; ++i) {
      const Operation operation = trace.next();
      trace.record(operation, actor.apply(operation));
      if (i % 50 != 0) continue;
      ASSERT_EQ(fault_of(actor.bfc(), neighbours), "") << seed << " " << i;
    }
    ASSERT_EQ(actor.regions().wrong_frees, 0U);
  }
}

TEST(Bfc, GivesEveryRegionBackInTheEnd) {
  PretendRegions regions({});
  {
    BfcOptions options;
    options.limit = 64 * kMiB;
    Bfc bfc(regions, options);
    for (int i = 0; i < 5; ++i) EXPECT_TRUE(bfc.allocate({3 * kMiB, 256, 0}));
    EXPECT_GT(regions.held, 0U);
  }
  EXPECT_EQ(regions.held, 0U);
  EXPECT_EQ(regions.wrong_frees, 0U);
}

}  // namespace
}  // namespace vram::arena
