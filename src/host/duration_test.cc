#include "host/duration.h"

#include <gtest/gtest.h>

namespace vram::host {
namespace {

std::string parsed(const std::string& text) {
  const Result<std::uint64_t> ms = parse_duration(text, "--timeout");
  return ms ? std::to_string(*ms) : ms.error().message;
}

TEST(Duration, HasAUnit) {
  EXPECT_EQ(parsed("60s"), "60000");
  EXPECT_EQ(parsed("500ms"), "500");
  EXPECT_EQ(parsed("1.5min"), "90000");
  EXPECT_EQ(parsed("24h"), "86400000");
}

TEST(Duration, WhatIsNoTimeIsRefusedWithTheNextStep) {
  EXPECT_EQ(parsed("60"), "--timeout: '60' has no unit; did you mean 60s or 60min?");
  EXPECT_EQ(parsed("60x"), "--timeout: '60x' has an unknown unit; use ms, s, min or h");
  EXPECT_EQ(parsed("25h"), "--timeout: '25h' is too long; use 24h or less");
  EXPECT_EQ(parsed("0s"), "--timeout: '0s' is no time at all; write one like 60s");
  for (const char* text : {"", "s", "-1s", "soon", "1.2.3s", ".s"}) {
    EXPECT_EQ(parsed(text),
              "--timeout: '" + std::string(text) + "' is not a time; write one like 60s");
  }
}

TEST(Duration, IsReadInSecondsFromTenMillisecondsOn) {
  EXPECT_EQ(format_us(740'000), "0.74s");
  EXPECT_EQ(format_us(75'000'000), "75.00s");
  EXPECT_EQ(format_us(3'100), "3.1ms");
}

}  // namespace
}  // namespace vram::host
