#include "sim/spec.h"

#include <gtest/gtest.h>

namespace vram::sim {
namespace {

constexpr uint64_t kGiB = 1ull << 30;

std::vector<uint64_t> parsed(std::string_view text) {
  std::vector<uint64_t> cards;
  EXPECT_EQ(parse_cards(text, &cards), SpecStatus::kOk) << text;
  return cards;
}

TEST(Spec, CountsAndSizes) {
  EXPECT_EQ(parsed("2x24GiB"), (std::vector<uint64_t>{24 * kGiB, 24 * kGiB}));
  EXPECT_EQ(parsed("24GiB"), (std::vector<uint64_t>{24 * kGiB}));
  EXPECT_EQ(parsed("1x24GiB,1x80GiB"), (std::vector<uint64_t>{24 * kGiB, 80 * kGiB}));
  EXPECT_EQ(parsed("64x1GiB").size(), 64u);
}

TEST(Spec, UnitsByThousandAreRoundedDownToPieces) {
  EXPECT_EQ(parsed("4Gi"), parsed("4g"));
  EXPECT_EQ(parsed("4GB"), (std::vector<uint64_t>{4000000000ull / (2 << 20) * (2 << 20)}));
}

TEST(Spec, MalformedIsToldFromAbsent) {
  std::vector<uint64_t> cards = {7};
  EXPECT_EQ(parse_cards("", &cards), SpecStatus::kAbsent);
  for (const char* text : {"24", "x24GiB", "2x", "2x24", "0x24GiB", "65x1GiB", "24GiB,", ",24GiB",
                           "-1GiB", "24 GiB", "2xGiB", "1KiB", "99999999TiB", "24GiBs"}) {
    EXPECT_EQ(parse_cards(text, &cards), SpecStatus::kMalformed) << text;
  }
  EXPECT_EQ(cards, std::vector<uint64_t>{7});
}

}  // namespace
}  // namespace vram::sim
