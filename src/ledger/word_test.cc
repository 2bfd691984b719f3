#include "ledger/word.h"

#include <gtest/gtest.h>

namespace vram::ledger {
namespace {

void expect_round_trip(const Total& total) {
  const Total back = unpack(pack(total));
  EXPECT_EQ(back.sum, total.sum);
  EXPECT_EQ(back.share, total.share);
  EXPECT_EQ(back.tag, total.tag);
  EXPECT_EQ(back.place, total.place);
}

constexpr Place kLastPlace = beside_of(wire::kMaxProcesses - 1);

TEST(Word, EveryFieldSurvivesPackingAtItsExtremesBesideEmptyAndFullOnes) {
  for (const std::uint64_t sum : {std::uint64_t{0}, std::uint64_t{1}, kMaxSum}) {
    for (const std::uint64_t share : {std::uint64_t{0}, std::uint64_t{1}, kMaxSum}) {
      for (const std::uint64_t tag : {std::uint64_t{0}, std::uint64_t{1}, kTagMask}) {
        for (const Place place : {Place{0}, Place{1}, kLastPlace}) {
          expect_round_trip({sum, share, tag, place});
        }
      }
    }
  }
}

TEST(Word, EverySingleBitOfAFieldSurvivesPacking) {
  for (unsigned bit = 0; bit < kSumBits; ++bit) {
    expect_round_trip({std::uint64_t{1} << bit, 0, 0, 0});
    expect_round_trip({0, std::uint64_t{1} << bit, 0, 0});
  }
  for (unsigned bit = 0; bit < kTagBits; ++bit) {
    expect_round_trip({0, 0, std::uint64_t{1} << bit, 0});
  }
  for (unsigned bit = 0; bit < kPlaceBits; ++bit) expect_round_trip({0, 0, 0, Place{1} << bit});
}

TEST(Word, AFreshFileSaysThatNobodyHoldsAnything) {
  const Total total = unpack({0, 0});
  EXPECT_EQ(total.sum, 0u);
  EXPECT_EQ(total.share, 0u);
  EXPECT_EQ(total.tag, 0u) << "the tag of a share nobody wrote: there is nothing to help with";
}

TEST(Word, AnAccountHoldsMoreThanAnyCard) { EXPECT_GE(kMaxSum * wire::kGranule, 255ull << 40); }

TEST(Word, ASwapHappensOnlyFromWhatIsExpectedInBothHalves) {
  wire::Word128 word{1, 2};
  EXPECT_FALSE(swap(word, {1, 3}, {9, 9}));
  EXPECT_FALSE(swap(word, {3, 2}, {9, 9}));
  EXPECT_TRUE(read(word) == (wire::Word128{1, 2}));
  EXPECT_TRUE(swap(word, {1, 2}, {8, 9}));
  EXPECT_TRUE(read(word) == (wire::Word128{8, 9}));
}

TEST(Word, TheTwoSharesOfASlotHavePlacesOfTheirOwn) {
  EXPECT_NE(charge_of(0), beside_of(0));
  EXPECT_NE(beside_of(0), charge_of(1));
  EXPECT_LT(kLastPlace, 1u << kPlaceBits);
}

}  // namespace
}  // namespace vram::ledger
