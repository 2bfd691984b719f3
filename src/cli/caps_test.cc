#include "cli/caps.h"

#include <gtest/gtest.h>

#include "cli/cards_for_test.h"
#include "wire/job_layout.h"

namespace vram::cli {
namespace {

constexpr std::uint64_t kMi = 1024UL * 1024, kGi = kTestGiB;

Setting<Limit> limit(const std::string& text, Layer layer = Layer::kFlag,
                     const std::string& origin = "-m") {
  if (text.empty()) return {};
  return {*parse_limit(text, origin), layer, origin};
}

Setting<Limit> ceiling(const std::string& text) {
  return limit(text, Layer::kSystemFile, "/etc/vram/config.toml:1: limit");
}

ContextCost half_a_gib(const probe::Card&) { return {512 * kMi, true}; }

Result<std::vector<std::uint64_t>> caps(const Setting<Limit>& asked, const Setting<Limit>& highest,
                                        const std::vector<probe::Card>& visible = three_cards()) {
  return resolve_caps(asked, highest, visible, three_cards(), half_a_gib);
}

std::string error_of(const Result<std::vector<std::uint64_t>>& result) {
  return result ? "" : result.error().message;
}

using Bytes = std::vector<std::uint64_t>;

TEST(Caps, WithoutALimitThereIsNone) {
  EXPECT_EQ(*caps({}, {}), (Bytes{wire::kUnlimited, wire::kUnlimited, wire::kUnlimited}));
}

TEST(Caps, ASizeIsForEachCardAndAPercentageOfEach) {
  EXPECT_EQ(*caps(limit("4GiB"), {}), (Bytes{4 * kGi, 4 * kGi, 4 * kGi}));
  EXPECT_EQ(*caps(limit("50%"), {}), (Bytes{12 * kGi, 12 * kGi, 40 * kGi}));
}

TEST(Caps, CardsAreNamedByTheNumbersOfTheHost) {
  const std::vector<probe::Card> reordered{three_cards()[2], three_cards()[0]};
  EXPECT_EQ(*caps(limit("0=4GiB,GPU-bbbb=8GiB"), {}, reordered), (Bytes{8 * kGi, 4 * kGi}));
  EXPECT_EQ(*caps(limit("2=8GiB"), {}, reordered), (Bytes{8 * kGi, wire::kUnlimited}));
}

TEST(Caps, ACardThatIsNotThereOrNotSeenIsRefused) {
  EXPECT_EQ(error_of(caps(limit("7=4GiB"), {})),
            "-m: there is no card 7; cards are 0 to 2 (see 'vram devices')");
  EXPECT_EQ(error_of(caps(limit("1=4GiB"), {}, {three_cards()[0]})),
            "-m: the program will not see card 1; leave its limit out, or name it in --gpu");
  EXPECT_EQ(error_of(caps(limit("2=4GiB,GPU-bbbb=8GiB"), {})),
            "-m: card 2 has two limits; give it one");
}

TEST(Caps, MoreThanTheCardIsRefused) {
  EXPECT_EQ(error_of(caps(limit("30GiB"), {})),
            "-m: 30GiB is more than card 0 has (24GiB); use less, or a percentage like 90%");
  EXPECT_EQ(*caps(limit("24GiB"), {}, {three_cards()[0]}), (Bytes{24 * kGi}));
}

TEST(Caps, LessThanAContextIsRefused) {
  EXPECT_EQ(error_of(caps(limit("511MiB"), {})),
            "-m: 511MiB is less than a CUDA context takes on card 0 (512MiB), so the program could "
            "not start; use more, like 1GiB");
  EXPECT_EQ(*caps(limit("512MiB"), {}, {three_cards()[0]}), (Bytes{512 * kMi}));
  const auto unmeasured =
      resolve_caps(limit("63MiB"), {}, three_cards(), three_cards(), [](const probe::Card&) {
        return ContextCost{64 * kMi, false};
      });
  EXPECT_EQ(error_of(unmeasured),
            "-m: 63MiB is less than any CUDA context takes on card 0 (64MiB), so the program could "
            "not start; use more, like 1GiB");
}

TEST(Caps, TheCeilingHoldsForWhoeverAsksForMore) {
  EXPECT_EQ(error_of(caps(limit("12GiB"), ceiling("8GiB"))),
            "-m: 12GiB on card 0 is over the ceiling of this system (8GiB, "
            "/etc/vram/config.toml:1: limit); use 8GiB or less");
  EXPECT_EQ(*caps(limit("8GiB"), ceiling("8GiB")), (Bytes{8 * kGi, 8 * kGi, 8 * kGi}));
  EXPECT_EQ(*caps(limit("2GiB"), ceiling("8GiB")), (Bytes{2 * kGi, 2 * kGi, 2 * kGi}));
}

TEST(Caps, TheCeilingHoldsForCardsThatWereNotNamed) {
  EXPECT_EQ(*caps(limit("0=2GiB"), ceiling("8GiB")), (Bytes{2 * kGi, 8 * kGi, 8 * kGi}));
  EXPECT_EQ(*caps(limit("0=2GiB"), ceiling("1=8GiB")), (Bytes{2 * kGi, 8 * kGi, wire::kUnlimited}));
}

TEST(Caps, TheAdministratorsLimitIsCutToTheCard) {
  EXPECT_EQ(*caps(ceiling("40GiB"), ceiling("40GiB")), (Bytes{24 * kGi, 24 * kGi, 40 * kGi}));
  EXPECT_EQ(*caps(ceiling("9=4GiB"), ceiling("9=4GiB"), {three_cards()[0]}),
            (Bytes{wire::kUnlimited}))
      << "the file serves hosts with more cards, too";
}

}  // namespace
}  // namespace vram::cli
