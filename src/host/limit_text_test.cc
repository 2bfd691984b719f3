#include "host/limit_text.h"

#include <gtest/gtest.h>

#include "wire/job_layout.h"

namespace vram::host {
namespace {

constexpr std::uint64_t kMi = 1024UL * 1024, kGi = kMi * 1024;

std::string error_of(const std::string& text) {
  const Result<Limit> limit = parse_limit(text, "-m");
  return limit ? "" : limit.error().message;
}

TEST(LimitText, OneSizeIsForEveryCard) {
  const Result<Limit> limit = parse_limit("4GiB", "-m");
  ASSERT_TRUE(limit);
  ASSERT_TRUE(limit->every.has_value());
  EXPECT_EQ(limit->every->amount, 4 * kGi);
  EXPECT_TRUE(limit->cards.empty());
}

TEST(LimitText, CardsHaveSizesOfTheirOwn) {
  const Result<Limit> limit = parse_limit("0=4GiB,GPU-6d9d=40%", "-m");
  ASSERT_TRUE(limit);
  EXPECT_FALSE(limit->every.has_value());
  ASSERT_EQ(limit->cards.size(), 2u);
  EXPECT_EQ(limit->cards[0].card, "0");
  EXPECT_EQ(limit->cards[1].card, "GPU-6d9d");
  EXPECT_EQ(limit->cards[1].size.kind, base::Size::Kind::kPermille);
  EXPECT_EQ(format_limit(*limit), "0=4GiB,GPU-6d9d=40%");
}

TEST(LimitText, EveryErrorNamesTheThingAndTheNextStep) {
  EXPECT_EQ(error_of("4"), "-m: '4' has no unit; did you mean 4GiB, 4MiB, 4B or 4%?");
  EXPECT_EQ(error_of(""), "-m: the size is empty; write one like 4GiB or 40%");
  EXPECT_EQ(error_of("lots"), "-m: 'lots' is not a size; write one like 4GiB or 40%");
  EXPECT_EQ(error_of("-4GiB"), "-m: '-4GiB' is negative; a limit is at least 1MiB");
  EXPECT_EQ(error_of("4g5"),
            "-m: '4g5' has an unknown unit; use KiB, MiB, GiB, TiB (1024), KB, MB, GB, TB (1000), "
            "B or %");
  EXPECT_EQ(error_of("140%"), "-m: '140%' is more than the whole card; use 100% or less");
  EXPECT_EQ(error_of("1.25%"),
            "-m: '1.25%' is too fine; percentages have one decimal at most, like 12.5%");
  EXPECT_EQ(error_of("0GiB"),
            "-m: '0GiB' is no memory at all; to hide a card use --gpu, for no limit leave it out");
  EXPECT_EQ(error_of("99999999TiB"),
            "-m: '99999999TiB' is more than any card has; write a size like 4GiB");
  EXPECT_EQ(error_of("4GiB,8GiB"),
            "-m: '4GiB,8GiB' lists sizes without cards; write 0=4GiB,1=8GiB");
  EXPECT_EQ(error_of("0=4GiB,8GiB"),
            "-m: '8GiB' names no card; write CARD=SIZE, like 0=4GiB,1=8GiB");
  EXPECT_EQ(error_of("=4GiB"), "-m: '=4GiB' names no card; write CARD=SIZE, like 0=4GiB,1=8GiB");
  EXPECT_EQ(error_of("0=4GiB,0=8GiB"), "-m: card 0 has two limits; give it one");
  EXPECT_EQ(error_of("0=4"), "-m: card 0: '4' has no unit; did you mean 4GiB, 4MiB, 4B or 4%?");
}

TEST(LimitText, PerProcessGpuMemoryIsWholeMib) {
  const Result<Limit> limit = parse_mib_limit("4096", "PER_PROCESS_GPU_MEMORY");
  ASSERT_TRUE(limit);
  EXPECT_EQ(limit->every->amount, 4 * kGi);
  for (const char* text : {"4GiB", "4.5", "lots", "4096 "}) {
    const Result<Limit> bad = parse_mib_limit(text, "PER_PROCESS_GPU_MEMORY");
    ASSERT_FALSE(bad) << text;
    EXPECT_EQ(bad.error().message,
              std::string("PER_PROCESS_GPU_MEMORY: '") + text +
                  "' is not a whole number of MiB; write 4096 for 4GiB, or use "
                  "VRAM_LIMIT=4GiB");
  }
  EXPECT_FALSE(parse_mib_limit("0", "x"));
  EXPECT_FALSE(parse_mib_limit("", "x"));
  EXPECT_FALSE(parse_mib_limit("-1", "x"));
}

TEST(LimitText, WhatIsPrintedCanBeTypedBack) {
  const std::pair<std::uint64_t, const char*> cases[] = {{4 * kGi, "4GiB"},
                                                         {518 * kMi, "518MiB"},
                                                         {2560 * kMi, "2560MiB"},
                                                         {0, "0B"},
                                                         {512, "512B"},
                                                         {1024, "1KiB"},
                                                         {24 * kGi + 1, "24.0GiB"},
                                                         {15 * kGi + 512 * kMi, "15.5GiB"},
                                                         {wire::kUnlimited, "none"}};
  for (const auto& [bytes, text] : cases) {
    EXPECT_EQ(format_bytes(bytes), text);
    if (bytes != 0 && bytes != wire::kUnlimited) {
      EXPECT_TRUE(parse_size(text, "")) << text;
    }
  }
}

TEST(LimitText, BytesOnACardAreWholeGranules) {
  EXPECT_EQ(bytes_on({base::Size::Kind::kBytes, 1000}, kGi), 512u);
  EXPECT_EQ(bytes_on({base::Size::Kind::kPermille, 400}, 1001), 0u);
  EXPECT_EQ(bytes_on({base::Size::Kind::kPermille, 1000}, 24 * kGi), 24 * kGi);
  EXPECT_EQ(bytes_on({base::Size::Kind::kPermille, 333}, std::uint64_t{1} << 44) % wire::kGranule,
            0u);
}

}  // namespace
}  // namespace vram::host
