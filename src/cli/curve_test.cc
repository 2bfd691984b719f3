#include "cli/curve.h"

#include <gtest/gtest.h>

namespace vram::cli {
namespace {

constexpr std::uint64_t kMiB = std::uint64_t{1} << 20;

std::vector<std::string> lines(const std::string& text) {
  std::vector<std::string> found(1);
  for (const char c : text) {
    if (c == '\n') {
      found.emplace_back();
    } else {
      found.back() += c;
    }
  }
  found.pop_back();
  return found;
}

TEST(Curve, LiveIsBelowReserved) {
  const auto drawn =
      lines(draw_curve({{0, 0}, {kMiB, 6 * kMiB}, {12 * kMiB, 12 * kMiB}, {6 * kMiB, 12 * kMiB}},
                       99, Colour::kNone));
  ASSERT_EQ(drawn.size(), 14u);
  EXPECT_EQ(drawn[0], "    12MiB |  #:");
  EXPECT_EQ(drawn[5], "          |  #:");
  EXPECT_EQ(drawn[6], "          | :##");
  EXPECT_EQ(drawn[11], "          | ###");
  EXPECT_EQ(drawn[12], "        0 +----");
  EXPECT_EQ(drawn[13], "           # live  : reserved  99 events");
}

TEST(Curve, ColourChangesNoCharacter) {
  const std::vector<replay::Sample> samples{{kMiB, 2 * kMiB}, {0, 2 * kMiB}, {0, 0}, {5, 5}};
  const std::string plain = draw_curve(samples, 4, Colour::kNone);
  std::string coloured = draw_curve(samples, 4, Colour::kSixteen);
  EXPECT_EQ(plain.find('\x1b'), std::string::npos);
  EXPECT_NE(coloured.find("\x1b[32m#"), std::string::npos);
  EXPECT_NE(coloured.find("\x1b[33m:"), std::string::npos);
  for (const std::string& line : lines(coloured)) {
    const std::size_t last = line.rfind("\x1b[");
    if (last == std::string::npos) continue;
    EXPECT_EQ(line.substr(last, 4), "\x1b[0m") << line;
  }
  for (std::size_t at; (at = coloured.find('\x1b')) != std::string::npos;) {
    coloured.erase(at, coloured.find('m', at) + 1 - at);
  }
  EXPECT_EQ(coloured, plain);
}

TEST(Curve, ItFitsTheTerminal) {
  EXPECT_EQ(curve_columns(0), 0u);
  EXPECT_EQ(curve_columns(30), 0u);
  EXPECT_EQ(curve_columns(80), 69u);
  EXPECT_EQ(curve_columns(400), 100u);
  for (const std::string& line :
       lines(draw_curve(std::vector<replay::Sample>(curve_columns(80), {1023 * kMiB, 1024 * kMiB}),
                        123456, Colour::kNone))) {
    EXPECT_LE(line.size(), 80u) << line;
  }
}

}  // namespace
}  // namespace vram::cli
