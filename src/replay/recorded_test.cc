#include "replay/recorded.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <cstdio>

namespace vram::replay {
namespace {

class Recordings : public ::testing::Test {
 protected:
  void TearDown() override { remove(path_.c_str()); }

  base::Expected<Recorded, std::string> read(const std::string& text, const Choice& choice = {}) {
    FILE* file = fopen(path_.c_str(), "w");
    fwrite(text.data(), 1, text.size(), file);
    fclose(file);
    return read_recorded(path_, choice);
  }
  std::string failure(const std::string& text, const Choice& choice = {}) {
    const auto recorded = read(text, choice);
    if (recorded) return "";
    EXPECT_EQ(recorded.error().rfind(path_, 0), 0u) << recorded.error();
    return recorded.error().substr(path_.size());
  }
  // Steps as "+BYTES@STREAM" and "-SLOT@STREAM".
  static std::string steps(const Workload& workload) {
    std::string text;
    for (const Step& step : workload.steps) {
      text +=
          (text.empty() ? "" : " ") +
          (step.bytes != 0 ? "+" + std::to_string(step.bytes) : "-" + std::to_string(step.slot)) +
          "@" + std::to_string(step.stream);
    }
    return text;
  }

  const std::string path_ = ::testing::TempDir() + "recorded-" + std::to_string(getpid());
};

TEST_F(Recordings, StepsFollowTheTrace) {
  const auto recorded = read("a 1 100 0\na 2 50 7\nf 1\na 3 70 9\nf 2\nf 3\n");
  ASSERT_TRUE(static_cast<bool>(recorded)) << recorded.error();
  EXPECT_EQ(steps(recorded->workload), "+100@0 +50@1 -0@0 +70@2 -1@1 -0@2");
  EXPECT_EQ(recorded->workload.peak_live, 150u);
  EXPECT_EQ(recorded->workload.slots, 2u);
  EXPECT_EQ(recorded->workload.streams, 3u);
  EXPECT_EQ(recorded->workload.allocations, 3u);
  EXPECT_EQ(recorded->card_bytes, 0u);
  EXPECT_FALSE(recorded->truncated);
}

TEST_F(Recordings, AFreeMayHaveAStreamOfItsOwn) {
  const auto recorded = read(
      "# vram-trace 1 unit=us device0.bytes=1000000\np 0\n"
      "a 1 100 3\nf 1 4\na 2 100 3\nf 2\na 3 100 3\nf 3 now\n");
  ASSERT_TRUE(static_cast<bool>(recorded)) << recorded.error();
  EXPECT_EQ(steps(recorded->workload), "+100@1 -0@2 +100@1 -0@1 +100@1 -0@1");
  EXPECT_EQ(recorded->card_bytes, 1000000u);
}

TEST_F(Recordings, WhatTookNothingIsCountedAndLeftOut) {
  const auto recorded = read(
      "# vram-trace 1\np 0\na 1 0 0\na 2 9 0 import\na 3 8 0 create\nx 77 0\nf 1\nf 2\nl 5\nf 3\n"
      "f 3\n");
  ASSERT_TRUE(static_cast<bool>(recorded)) << recorded.error();
  EXPECT_EQ(steps(recorded->workload), "+8@0 -0@0");
  EXPECT_EQ(recorded->zero_bytes, 1u);
  EXPECT_EQ(recorded->foreign, 1u);
  EXPECT_EQ(recorded->refused, 1u);
  EXPECT_EQ(recorded->lost, 5u);
}

constexpr char kSeveral[] =
    "# vram-trace 1 device1.bytes=777\np 0\na 1 100 0\np 1\na 2 300 0\na 3 200 0 @1\np 0\n"
    "a 4 250 0 @1\nf 4\na 5 250 0 @1\n";

TEST_F(Recordings, TheHighestPeakIsChosen) {
  const auto recorded = read(kSeveral);
  ASSERT_TRUE(static_cast<bool>(recorded)) << recorded.error();
  EXPECT_EQ(recorded->process, 1u);
  EXPECT_EQ(recorded->device, 0u);
  EXPECT_EQ(recorded->processes, 2u);
  EXPECT_EQ(recorded->devices, 2u);
  EXPECT_EQ(steps(recorded->workload), "+300@0");
}

TEST_F(Recordings, ProcessAndDeviceCanBeChosen) {
  const auto second = read(kSeveral, {0, std::nullopt});
  ASSERT_TRUE(static_cast<bool>(second)) << second.error();
  EXPECT_EQ(second->device, 1u);
  EXPECT_EQ(second->card_bytes, 777u);
  EXPECT_EQ(steps(second->workload), "+250@0 -0@0 +250@0");
  EXPECT_EQ(read(kSeveral, {std::nullopt, 1})->process, 0u);
  EXPECT_EQ(read(kSeveral, {1, 1})->workload.peak_live, 200u);
  EXPECT_EQ(failure(kSeveral, {5, std::nullopt}),
            ": process 5 allocates nothing in it; those that do: 0, 1");
  EXPECT_EQ(failure(kSeveral, {std::nullopt, 4}),
            ": nothing is allocated on device 4 in it; devices with allocations: 0, 1");
  EXPECT_EQ(failure("# vram-trace 1\np 0\na 1 1 0\np 1\na 2 1 0 @1\n", {0, 1}),
            ": process 0 allocates nothing on device 1");
}

TEST_F(Recordings, WhatIsNoTraceIsRefused) {
  EXPECT_EQ(failure("a 1 100 0\nf 1\na x 5 0\n"), ":3: expected ID, found 'x'");
  EXPECT_EQ(failure(""), ": it has no allocation to replay");
  EXPECT_EQ(failure("a 1 0 0\n"), ": it has no allocation to replay");
  const auto folder = read_recorded(::testing::TempDir(), {});
  ASSERT_FALSE(static_cast<bool>(folder));
  EXPECT_EQ(folder.error(), ::testing::TempDir() + ": it is a directory; name a trace in it");
  EXPECT_EQ(read_recorded(path_ + ".none", {}).error(), path_ + ".none: No such file or directory");
}

TEST_F(Recordings, ATraceThatStopsInTheMiddleIsReadUpToThere) {
  const auto recorded = read("a 1 100 0\na 2 50");
  ASSERT_TRUE(static_cast<bool>(recorded)) << recorded.error();
  EXPECT_EQ(steps(recorded->workload), "+100@0");
  EXPECT_TRUE(recorded->truncated);
}

}  // namespace
}  // namespace vram::replay
