#include "base/size.h"

#include <gtest/gtest.h>

#include <string>

namespace vram::base {
namespace {

constexpr std::uint64_t kKi = 1024, kMi = kKi * 1024, kGi = kMi * 1024, kTi = kGi * 1024;

SizeError error_of(std::string_view text) {
  Size out;
  return parse_size(text, &out);
}

std::uint64_t bytes_of(std::string_view text) {
  Size out;
  EXPECT_EQ(parse_size(text, &out), SizeError::kNone) << text;
  EXPECT_EQ(out.kind, Size::Kind::kBytes) << text;
  return out.amount;
}

std::uint64_t permille_of(std::string_view text) {
  Size out;
  EXPECT_EQ(parse_size(text, &out), SizeError::kNone) << text;
  EXPECT_EQ(out.kind, Size::Kind::kPermille) << text;
  return out.amount;
}

TEST(Size, EveryBinarySpellingIsAPowerOf1024) {
  const std::pair<char, std::uint64_t> prefixes[] = {
      {'k', kKi}, {'m', kMi}, {'g', kGi}, {'t', kTi}};
  for (const auto& [letter, unit] : prefixes) {
    const char upper = static_cast<char>(letter - 32);
    for (const std::string& prefix : {std::string(1, letter), std::string(1, upper)}) {
      for (const char* rest : {"", "i", "I", "iB", "ib", "IB"}) {
        EXPECT_EQ(bytes_of("4" + prefix + rest), 4 * unit) << prefix << rest;
      }
    }
  }
}

TEST(Size, EveryDecimalSpellingIsAPowerOf1000) {
  EXPECT_EQ(bytes_of("4kB"), 4'000u);
  EXPECT_EQ(bytes_of("4KB"), 4'000u);
  EXPECT_EQ(bytes_of("4MB"), 4'000'000u);
  EXPECT_EQ(bytes_of("4mb"), 4'000'000u);
  EXPECT_EQ(bytes_of("4GB"), 4'000'000'000u);
  EXPECT_EQ(bytes_of("4TB"), 4'000'000'000'000u);
}

TEST(Size, BytesNeedTheirUnit) {
  EXPECT_EQ(bytes_of("4096B"), 4096u);
  EXPECT_EQ(bytes_of("1b"), 1u);
}

TEST(Size, DecimalsAreCutToWholeBytes) {
  EXPECT_EQ(bytes_of("1.5GiB"), kGi + kGi / 2);
  EXPECT_EQ(bytes_of("0.5g"), kGi / 2);
}

TEST(Size, LeadingZerosMeanNothing) {
  EXPECT_EQ(bytes_of("0000000000000000000000004GiB"), 4 * kGi);
}

TEST(Size, PercentagesHaveOneDecimalAtMost) {
  EXPECT_EQ(permille_of("40%"), 400u);
  EXPECT_EQ(permille_of("12.5%"), 125u);
  EXPECT_EQ(permille_of("0.1%"), 1u);
  EXPECT_EQ(permille_of("100%"), 1000u);
  EXPECT_EQ(permille_of("100.0%"), 1000u);
  EXPECT_EQ(permille_of("40.50%"), 405u);
  EXPECT_EQ(error_of("12.55%"), SizeError::kPercentTooFine);
  EXPECT_EQ(error_of("100.1%"), SizeError::kOverHundred);
  EXPECT_EQ(error_of("140%"), SizeError::kOverHundred);
  EXPECT_EQ(error_of("0%"), SizeError::kZero);
  EXPECT_EQ(error_of("-1%"), SizeError::kNegative);
  EXPECT_EQ(error_of("%"), SizeError::kNotANumber);
  EXPECT_EQ(error_of("40%%"), SizeError::kUnknownUnit);
}

TEST(Size, ABareNumberIsAnError) {
  for (const char* text : {"4", "4096", "4294967296", "1.5"}) {
    EXPECT_EQ(error_of(text), SizeError::kNoUnit) << text;
  }
}

TEST(Size, WhatIsNoNumberIsAnError) {
  EXPECT_EQ(error_of(""), SizeError::kEmpty);
  for (const char* text : {"abc", "NaN", "nan", "inf", "GiB", "+4GiB", ".5GiB", "4.GiB", "0x4GiB?",
                           " 4GiB", "\t", "max", "none", "1.%"}) {
    const SizeError error = error_of(text);
    EXPECT_TRUE(error == SizeError::kNotANumber || error == SizeError::kUnknownUnit) << text;
  }
  EXPECT_EQ(error_of("NaN"), SizeError::kNotANumber);
  EXPECT_EQ(error_of("4.GiB"), SizeError::kNotANumber);
}

TEST(Size, UnknownUnitsAreErrors) {
  for (const char* text : {"4g5", "4 GiB", "4XB", "4GiBs", "4GG", "4Gi ", "4PiB", "4e3MiB",
                           "4,5GiB", "4bit", "4ib", "4GiB,", "4g-", "0x4GiB"}) {
    EXPECT_EQ(error_of(text), SizeError::kUnknownUnit) << text;
  }
}

TEST(Size, NothingAndLessAreErrors) {
  for (const char* text : {"0", "0GiB", "0.0GiB", "00", "0B", "0.0001KB"}) {
    EXPECT_EQ(error_of(text), SizeError::kZero) << text;
  }
  for (const char* text : {"-4GiB", "-0", "-", "-x"}) {
    EXPECT_EQ(error_of(text), SizeError::kNegative) << text;
  }
}

TEST(Size, TwoToThe63IsTooMuch) {
  EXPECT_EQ(bytes_of("9223372036854775807B"), 9223372036854775807u);
  EXPECT_EQ(error_of("9223372036854775808B"), SizeError::kOverflow);
  EXPECT_EQ(error_of("8388608TiB"), SizeError::kOverflow);
  EXPECT_EQ(bytes_of("8388607TiB"), 8388607 * kTi);
  EXPECT_EQ(error_of("99999999999999999999999999GiB"), SizeError::kOverflow);
  EXPECT_EQ(error_of("0.00000000000000000000000000001GiB"), SizeError::kOverflow);
}

TEST(Size, OutputStaysUntouchedOnFailure) {
  Size out{Size::Kind::kPermille, 7};
  EXPECT_EQ(parse_size("4g5", &out), SizeError::kUnknownUnit);
  EXPECT_EQ(parse_size("0GiB", &out), SizeError::kZero);
  EXPECT_EQ(out.kind, Size::Kind::kPermille);
  EXPECT_EQ(out.amount, 7u);
}

TEST(Size, MibTakesWholeNumbersOnly) {
  std::uint64_t bytes = 0;
  EXPECT_EQ(parse_mib("4096", &bytes), SizeError::kNone);
  EXPECT_EQ(bytes, 4 * kGi);
  EXPECT_EQ(parse_mib("4096MiB", &bytes), SizeError::kUnknownUnit);
  EXPECT_EQ(parse_mib("1.5", &bytes), SizeError::kNotANumber);
  EXPECT_EQ(parse_mib("-1", &bytes), SizeError::kNegative);
  EXPECT_EQ(parse_mib("0", &bytes), SizeError::kZero);
  EXPECT_EQ(parse_mib("", &bytes), SizeError::kEmpty);
  EXPECT_EQ(parse_mib("lots", &bytes), SizeError::kNotANumber);
  EXPECT_EQ(parse_mib("9999999999999999", &bytes), SizeError::kOverflow);
  EXPECT_EQ(bytes, 4 * kGi);
}

}  // namespace
}  // namespace vram::base
