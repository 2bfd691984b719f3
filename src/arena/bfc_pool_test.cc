#include <gtest/gtest.h>

#include <vector>

#include "arena/bfc.h"
#include "arena/bfc_check_for_test.h"
#include "arena/pretend_regions_for_test.h"

namespace vram::arena {
namespace {

constexpr std::uint64_t kMiB = 1 << 20;

BfcOptions growing(std::uint64_t limit) {
  BfcOptions options;
  options.limit = limit;
  return options;
}

BfcOptions greedy(std::uint64_t limit) {
  BfcOptions options = growing(limit);
  options.growth = false;
  return options;
}

std::uint64_t take(Bfc& bfc, std::uint64_t bytes) {
  BfcRequest request;
  request.bytes = bytes;
  const auto address = bfc.allocate(request);
  return address ? *address : 0;
}

using Sizes = std::vector<std::uint64_t>;

TEST(BfcPool, IsEmptyUntilTheFirstAllocationAndThenTheWholeLimitWithoutGrowth) {
  PretendRegions regions({});
  Bfc bfc(regions, greedy(100 * kMiB));
  EXPECT_EQ(bfc.stats().pool_bytes, 0U);
  EXPECT_TRUE(regions.asked.empty());
  EXPECT_NE(take(bfc, 1), 0U);
  EXPECT_EQ(regions.asked, Sizes{100 * kMiB});
  EXPECT_EQ(bfc.stats().pool_bytes, 100 * kMiB);
}

TEST(BfcPool, GrowsByRegionsThatDoubleUpToTheLimit) {
  PretendRegions regions({});
  Bfc bfc(regions, growing(21 * kMiB));
  while (take(bfc, kMiB) != 0) {
  }
  EXPECT_EQ(regions.asked, (Sizes{2 * kMiB, 4 * kMiB, 8 * kMiB, 7 * kMiB}));
  EXPECT_EQ(bfc.stats().pool_bytes, 21 * kMiB);
  EXPECT_EQ(bfc.stats().num_allocs, 21U);
}

TEST(BfcPool, TheFirstRegionIsNoLargerThanTheLimit) {
  PretendRegions regions({});
  EXPECT_EQ(Bfc(regions, growing(kMiB)).report({}).next_region, kMiB);
  EXPECT_EQ(Bfc(regions, growing(3 * kMiB)).report({}).next_region, 2 * kMiB);
}

TEST(BfcPool, ARegionMadeLargerForARequestIsNotDoubledAgain) {
  PretendRegions regions({});
  Bfc bfc(regions, growing(1024 * kMiB));
  for (int i = 0; i < 4; ++i) EXPECT_NE(take(bfc, 5 * kMiB), 0U);
  EXPECT_EQ(regions.asked, (Sizes{8 * kMiB, 8 * kMiB, 16 * kMiB}));
}

TEST(BfcPool, TheLimitIsCutToWholeGranules) {
  PretendRegions regions({});
  Bfc bfc(regions, greedy(1000));
  EXPECT_NE(take(bfc, 1), 0U);
  EXPECT_EQ(regions.asked, Sizes{768});
  EXPECT_EQ(bfc.stats().bytes_limit, 1000U);
}

TEST(BfcPool, ALimitBelowAGranuleOrAboveEveryDeviceIsNoHarm) {
  PretendRegions regions({});
  Bfc none(regions, growing(255));
  EXPECT_EQ(take(none, 1), 0U);
  EXPECT_TRUE(regions.asked.empty());
  Bfc all(regions, greedy(~std::uint64_t{0}));
  EXPECT_NE(take(all, 1), 0U);
  EXPECT_LE(regions.held, regions.habits().budget);
}

TEST(BfcPool, BacksOffByATenthOfAFloatWhenRefused) {
  RegionHabits habits;
  habits.largest = 80 * kMiB;
  PretendRegions regions(habits);
  Bfc bfc(regions, greedy(100 * kMiB));
  EXPECT_NE(take(bfc, 1), 0U);
  EXPECT_EQ(regions.asked, (Sizes{104'857'600, 94'371'840, 84'934'656, 76'441'344}));
  EXPECT_EQ(bfc.stats().pool_bytes, 76'441'344U);
}

TEST(BfcPool, APoolThatBackedOffIsToppedUpLater) {
  RegionHabits habits;
  habits.largest = 80 * kMiB;
  PretendRegions regions(habits);
  Bfc bfc(regions, greedy(100 * kMiB));
  EXPECT_NE(take(bfc, 72 * kMiB), 0U);
  EXPECT_NE(take(bfc, 20 * kMiB), 0U);
  EXPECT_EQ(bfc.stats().pool_bytes, 100 * kMiB);
  EXPECT_EQ(regions.granted, 2U);
}

TEST(BfcPool, ASourceThatAlwaysRefusesIsAskedForLessEachTimeAndThenNoMore) {
  RegionHabits habits;
  habits.budget = 0;
  PretendRegions regions(habits);
  Bfc bfc(regions, greedy(2048));
  EXPECT_EQ(take(bfc, 300), 0U);
  EXPECT_EQ(regions.asked, (Sizes{2048, 1792, 1536, 1280, 1024, 768, 512}));
}

TEST(BfcPool, ASourceThatGrantsMoreDoesNotLiftTheLimit) {
  RegionHabits habits;
  habits.grain = 2 * kMiB;
  PretendRegions regions(habits);
  Bfc bfc(regions, greedy(3 * kMiB));
  EXPECT_NE(take(bfc, 3 * kMiB), 0U);
  EXPECT_EQ(bfc.stats().pool_bytes, 4 * kMiB);
  EXPECT_EQ(take(bfc, 2 * kMiB), 0U);
  EXPECT_EQ(regions.granted, 1U);
}

class OddRegions final : public RegionSource {
 public:
  explicit OddRegions(Range range) : range_(range) {}
  std::optional<Range> allocate(std::uint64_t, std::uint64_t) override {
    ++out;
    return range_;
  }
  void free(Range) override { --out; }
  bool supports_coalescing() const override { return false; }
  int out = 0;

 private:
  Range range_;
};

TEST(BfcPool, ARegionThatIsCrookedOrTooSmallIsGivenBackUnused) {
  for (const Range range : {Range{4096 + 128, 4096}, Range{4096, 4096 + 128}, Range{4096, 256}}) {
    OddRegions regions(range);
    Bfc bfc(regions, greedy(4096));
    EXPECT_EQ(take(bfc, 1024), 0U);
    EXPECT_EQ(regions.out, 0);
    EXPECT_EQ(bfc.stats().pool_bytes, 0U);
  }
}

// Half a GiB in pieces of 4 MiB, all but the last freed again.
std::uint64_t take_nearly_all_after(PretendRegions& regions) {
  Bfc bfc(regions, growing(512 * kMiB));
  std::vector<std::uint64_t> held;
  for (int i = 0; i < 128; ++i) held.push_back(take(bfc, 4 * kMiB));
  for (std::size_t i = 0; i + 1 < held.size(); ++i) EXPECT_TRUE(bfc.free(held[i]));
  EXPECT_EQ(fault_of(bfc), "");
  return take(bfc, 508 * kMiB);
}

TEST(BfcPool, NoAllocationLiesAcrossRegionsUnlessTheSourceSaysItMay) {
  RegionHabits habits;
  PretendRegions apart(habits);
  EXPECT_EQ(take_nearly_all_after(apart), 0U);
  habits.coalescing = true;
  PretendRegions joined(habits);
  EXPECT_EQ(take_nearly_all_after(joined), habits.base);
  habits.gap = 256;
  PretendRegions distant(habits);
  EXPECT_EQ(take_nearly_all_after(distant), 0U);
}

TEST(BfcPool, RegionsThatAdjoinBecomeOneAndGoBackAsOne) {
  RegionHabits habits;
  habits.coalescing = true;
  PretendRegions regions(habits);
  {
    Bfc bfc(regions, growing(64 * kMiB));
    for (int i = 0; i < 3; ++i) EXPECT_NE(take(bfc, 2 * kMiB), 0U);
    EXPECT_EQ(regions.granted, 2U);
    EXPECT_EQ(bfc.report({}).regions.size(), 1U);
    EXPECT_EQ(fault_of(bfc), "");
  }
  EXPECT_EQ(regions.freed, 1U);
  EXPECT_EQ(regions.held, 0U);
  EXPECT_EQ(regions.wrong_frees, 0U);
}

// Regions of 2, 4 and 8 MiB in a limit of 14 MiB, each with one allocation.
struct ThreeRegions {
  explicit ThreeRegions(bool collects) : bfc(regions, options(collects)) {
    for (const std::uint64_t mib : {2U, 4U, 8U}) held.push_back(take(bfc, mib * kMiB));
  }
  static BfcOptions options(bool collects) {
    BfcOptions options = growing(14 * kMiB);
    options.garbage_collection = collects;
    return options;
  }
  PretendRegions regions{RegionHabits{}};
  Bfc bfc;
  std::vector<std::uint64_t> held;
};

TEST(BfcPool, FreeRegionsGoBackWhenARequestWouldFailOtherwise) {
  ThreeRegions pool(true);
  ASSERT_TRUE(pool.bfc.free(pool.held[0]));
  ASSERT_TRUE(pool.bfc.free(pool.held[1]));
  EXPECT_EQ(pool.regions.freed, 0U);
  EXPECT_NE(take(pool.bfc, 6 * kMiB), 0U);
  EXPECT_EQ(pool.regions.freed, 2U);
  EXPECT_EQ(pool.bfc.stats().pool_bytes, 14 * kMiB);
  EXPECT_EQ(pool.bfc.stats().peak_pool_bytes, 14 * kMiB);
  EXPECT_EQ(fault_of(pool.bfc), "");
}

TEST(BfcPool, FreeRegionsStayWithoutCollection) {
  ThreeRegions pool(false);
  ASSERT_TRUE(pool.bfc.free(pool.held[0]));
  ASSERT_TRUE(pool.bfc.free(pool.held[1]));
  EXPECT_EQ(take(pool.bfc, 6 * kMiB), 0U);
  EXPECT_EQ(pool.regions.freed, 0U);
}

TEST(BfcPool, FreeRegionsStayWhenTheyCouldNotSuffice) {
  ThreeRegions pool(true);
  ASSERT_TRUE(pool.bfc.free(pool.held[0]));
  ASSERT_TRUE(pool.bfc.free(pool.held[1]));
  EXPECT_EQ(take(pool.bfc, 6 * kMiB + 1), 0U);
  EXPECT_EQ(pool.regions.freed, 0U);
  EXPECT_EQ(pool.bfc.stats().pool_bytes, 14 * kMiB);
}

TEST(BfcPool, ARegionWithAnAllocationIsNotCollected) {
  ThreeRegions pool(true);
  ASSERT_TRUE(pool.bfc.free(pool.held[2]));
  const std::uint64_t small = take(pool.bfc, 256);
  ASSERT_NE(small, 0U);
  ASSERT_TRUE(pool.bfc.free(pool.held[0]));
  EXPECT_EQ(take(pool.bfc, 10 * kMiB), 0U);
  EXPECT_EQ(pool.regions.freed, 0U);
  ASSERT_TRUE(pool.bfc.free(small));
  EXPECT_NE(take(pool.bfc, 10 * kMiB), 0U);
  EXPECT_EQ(pool.regions.freed, 2U);
}

TEST(BfcPool, ManyCollectionsDoNotWrapTheNextRegionAround) {
  BfcOptions options = growing(4 * kMiB);
  options.garbage_collection = true;
  RegionHabits habits;
  habits.base += 256;
  PretendRegions regions(habits);
  Bfc bfc(regions, options);
  // No region begins where this could be placed, so that each try exchanges the region.
  for (int round = 0; round < 200; ++round) {
    EXPECT_FALSE(bfc.allocate({3 * kMiB, 2 * kMiB, 0}));
  }
  EXPECT_GE(regions.granted, 200U);
  EXPECT_NE(take(bfc, 4 * kMiB), 0U);
  EXPECT_EQ(bfc.stats().pool_bytes, 4 * kMiB);
}

TEST(BfcPool, ALimitThatChangesCountsFromTheNextRequestOn) {
  PretendRegions regions({});
  Bfc bfc(regions, growing(0));
  EXPECT_EQ(take(bfc, kMiB), 0U);
  bfc.set_limit(4 * kMiB);
  EXPECT_NE(take(bfc, kMiB), 0U);
  bfc.set_limit(kMiB);
  EXPECT_EQ(bfc.stats().bytes_limit, kMiB);
  EXPECT_NE(take(bfc, kMiB), 0U) << "the pool has it already";
  EXPECT_EQ(take(bfc, kMiB), 0U);
  EXPECT_EQ(bfc.stats().pool_bytes, 2 * kMiB);
}

TEST(BfcPool, TrimGivesBackRegionsWithoutAnAllocationAndNoMoreThanAsked) {
  PretendRegions regions({});
  Bfc bfc(regions, growing(1024 * kMiB));
  const std::uint64_t first = take(bfc, 2 * kMiB);
  const std::uint64_t second = take(bfc, 4 * kMiB);
  const std::uint64_t third = take(bfc, 8 * kMiB);
  EXPECT_TRUE(bfc.free(second));
  EXPECT_TRUE(bfc.free(third));
  EXPECT_EQ(bfc.trim(6 * kMiB), 8 * kMiB);
  EXPECT_EQ(bfc.trim(0), 4 * kMiB);
  EXPECT_EQ(bfc.trim(0), 0U);
  EXPECT_EQ(regions.held, 2 * kMiB);
  EXPECT_EQ(regions.wrong_frees, 0U);
  EXPECT_TRUE(bfc.free(first));
  EXPECT_NE(take(bfc, 2 * kMiB), 0U);
  EXPECT_EQ(fault_of(bfc), "");
}

TEST(BfcPool, TheRegionForARequestIsTheOneThatTheSourceIsAskedFor) {
  PretendRegions regions({});
  Bfc bfc(regions, growing(100 * kMiB));
  for (const std::uint64_t bytes : {kMiB, 5 * kMiB, kMiB, 20 * kMiB, 3 * kMiB}) {
    BfcRequest request;
    request.bytes = bytes;
    const std::uint64_t expected = bfc.region_for(request);
    const std::size_t before = regions.asked.size();
    EXPECT_NE(take(bfc, bytes), 0U);
    ASSERT_EQ(regions.asked.size(), before + (expected != 0 ? 1 : 0)) << bytes;
    if (expected != 0) {
      EXPECT_EQ(regions.asked.back(), expected);
    }
  }
  BfcRequest too_much;
  too_much.bytes = 90 * kMiB;
  EXPECT_EQ(bfc.region_for(too_much), 0U);
}

TEST(BfcPool, ARequestMaySayHowLargeARegionItMayTake) {
  PretendRegions regions({});
  Bfc bfc(regions, growing(100 * kMiB));
  BfcRequest request;
  request.bytes = 5 * kMiB;
  request.largest_region = 5 * kMiB - 1;
  EXPECT_FALSE(static_cast<bool>(bfc.allocate(request)));
  EXPECT_TRUE(regions.asked.empty());
  request.largest_region = 5 * kMiB;
  EXPECT_TRUE(static_cast<bool>(bfc.allocate(request)));
  EXPECT_EQ(regions.asked, Sizes{5 * kMiB});
}

}  // namespace
}  // namespace vram::arena
