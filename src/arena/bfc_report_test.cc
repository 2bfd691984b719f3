#include "arena/bfc_report.h"

#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "arena/pretend_regions_for_test.h"

namespace vram::arena {
namespace {

BfcOptions greedy(std::uint64_t limit) {
  BfcOptions options;
  options.limit = limit;
  options.growth = false;
  return options;
}

// A pool of 25,600 bytes, so that a granule is a column: in use 10, free 10, in use 10 (of which
// the last column and a half was not asked for), free 70.
struct Hundred {
  Hundred() : bfc(regions, greedy(25'600)) {
    std::uint64_t held[3] = {};
    for (std::uint64_t& address : held) address = *bfc.allocate({2560, 256, 0});
    EXPECT_TRUE(bfc.free(held[1]));
    EXPECT_TRUE(bfc.free(held[2]));
    hole = held[1];
    EXPECT_TRUE(bfc.allocate({2560, 256, 0}));
    last = *bfc.allocate({2176 + 300, 256, 0});
    EXPECT_TRUE(bfc.free(hole));
  }
  PretendRegions regions{RegionHabits{}};
  Bfc bfc;
  std::uint64_t hole = 0;
  std::uint64_t last = 0;
};

TEST(BfcReport, TheMapShowsWhatIsInUseHadInVainAndFree) {
  const Hundred arena;
  const BfcReport report = arena.bfc.report({});
  EXPECT_EQ(report.map, std::string(10, '*') + std::string(10, '_') + std::string(10, '*') +
                            std::string(70, '_'));
}

TEST(BfcReport, PaddingIsMarkedWhereNothingElseIs) {
  PretendRegions regions{RegionHabits{}};
  Bfc bfc(regions, greedy(2560));
  ASSERT_TRUE(bfc.allocate({1290, 256, 0}));
  // Not split: all ten granules, of which five and a bit were asked for.
  EXPECT_EQ(bfc.report({}).map, std::string(51, '*') + std::string(49, 'x'));
}

TEST(BfcReport, AnEmptyPoolHasNoMapAndNoFragmentation) {
  PretendRegions regions{RegionHabits{}};
  const Bfc bfc(regions, greedy(4096));
  const BfcReport report = bfc.report({});
  EXPECT_EQ(report.map, "");
  EXPECT_EQ(report.fragmentation, 0);
  EXPECT_EQ(report.unallocated, 4096U);
  EXPECT_EQ(bfc_map({}), "");
}

TEST(BfcReport, TheMapOfAnEnormousPoolDoesNotOverflow) {
  PretendRegions regions{RegionHabits{}};
  Bfc bfc(regions, greedy(std::uint64_t{1} << 59));
  ASSERT_TRUE(bfc.allocate({std::uint64_t{1} << 58, 256, 0}));
  EXPECT_EQ(bfc.report({}).map, std::string(50, '*') + std::string(50, '_'));
}

TEST(BfcReport, BinsCountChunksAndBytesInUseAndFree) {
  const Hundred arena;
  const BfcReport report = arena.bfc.report({});
  const BfcBinReport& bin = report.bins[3];
  EXPECT_EQ(bin.lower_bound, 2048U);
  EXPECT_EQ(bin.chunks, 3U);
  EXPECT_EQ(bin.chunks_in_use, 2U);
  EXPECT_EQ(bin.bytes, 7680U);
  EXPECT_EQ(bin.bytes_in_use, 5120U);
  EXPECT_EQ(bin.requested_in_use, 5036U);
  EXPECT_EQ(report.bins[6].chunks, 1U);
  EXPECT_EQ(report.bins[6].chunks_in_use, 0U);
  EXPECT_EQ(report.bins[6].bytes, 17'920U);
  EXPECT_EQ(report.bins[20].lower_bound, 256U << 20);
}

TEST(BfcReport, NamesTheWantedBinItsFreeChunksAndTheirNeighbours) {
  const Hundred arena;
  const BfcReport report = arena.bfc.report({3000, 256, 0});
  EXPECT_EQ(report.rounded, 3072U);
  EXPECT_EQ(report.wanted_bin, 3);
  ASSERT_EQ(report.wanted.size(), 1U);
  EXPECT_EQ(report.wanted[0].chunk.address, arena.hole);
  ASSERT_TRUE(report.wanted[0].previous && report.wanted[0].next);
  EXPECT_TRUE(report.wanted[0].previous->in_use());
  EXPECT_EQ(report.wanted[0].next->address, arena.last);
  EXPECT_EQ(report.wanted[0].next->requested, 2476U);
}

TEST(BfcReport, SumsWhatIsInUseBySizeAndWhatIsFree) {
  const Hundred arena;
  const BfcReport report = arena.bfc.report({});
  ASSERT_EQ(report.in_use.size(), 1U);
  EXPECT_EQ(report.in_use[0].size, 2560U);
  EXPECT_EQ(report.in_use[0].chunks, 2U);
  EXPECT_EQ(report.free_in_pool, 20'480U);
  EXPECT_EQ(report.unallocated, 0U);
  EXPECT_EQ(report.next_region, 51'200U);
  EXPECT_FALSE(report.growth);
  EXPECT_DOUBLE_EQ(report.fragmentation, 2560.0 / 20'480);
}

TEST(BfcReport, TheTextFollowsTheOrderOfTheOriginal) {
  const Hundred arena;
  const std::string text = to_text(arena.bfc.report({18'000, 256, 0}), "GPU 0", "matmul");
  std::size_t at = 0;
  for (const char* part : {"'GPU 0': out of memory: 17.58KiB (18176 bytes once rounded) for matmul",
                           "Enough is free, in pieces",
                           "from       256B",
                           "from  256.00MiB",
                           "17.75KiB belongs among the chunks from 16.00KiB",
                           "17.50KiB between 2.50KiB in use and nothing",
                           "Region of 25600 bytes at 0x",
                           "InUse at 0x",
                           "Free  at 0x",
                           "next 0x",
                           "2 chunks of size 2560, together 5.00KiB",
                           "Sum in use: 5.00KiB",
                           "largest free block 17.50KiB",
                           "Next region: 50.00KiB",
                           "Limit                           25600",
                           "InUse                            5120",
                           "MaxInUse",
                           "NumAllocs",
                           "MaxAllocSize",
                           "Reserved",
                           "PeakReserved",
                           "LargestFreeBlock",
                           "Fragmentation                   0.125",
                           "**********__________**********____"}) {
    const std::size_t found = text.find(part, at);
    ASSERT_NE(found, std::string::npos) << part << "\nis not where it should be in\n" << text;
    at = found + 1;
  }
}

TEST(BfcReport, SaysThatTheLimitIsTooLowWhenTooLittleIsFree) {
  const Hundred arena;
  const std::string text = to_text(arena.bfc.report({1 << 20, 256, 0}), "", "");
  EXPECT_NE(text.find("the arena: out of memory: 1.00MiB"), std::string::npos) << text;
  EXPECT_NE(text.find("Raise the limit"), std::string::npos) << text;
}

}  // namespace
}  // namespace vram::arena
