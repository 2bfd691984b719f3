#include "replay/replay.h"

#include <gtest/gtest.h>

#include <map>

namespace vram::replay {
namespace {

// Holds what is live, rounded up to 100 bytes a block, and never lets go of its peak.
class Rounding final : public Target {
 public:
  explicit Rounding(std::uint64_t limit) : limit_(limit) {}
  ~Rounding() override { EXPECT_TRUE(blocks_.empty()) << "blocks are left"; }
  std::uint64_t allocate(std::uint64_t bytes, std::uint32_t stream) override {
    const std::uint64_t rounded = (bytes + 99) / 100 * 100;
    if (live_ + rounded > limit_) return 0;
    live_ += rounded;
    peak_ = std::max(peak_, live_);
    blocks_[++last_] = bytes;
    calls += "+" + std::to_string(stream);
    return last_;
  }
  void free(std::uint64_t block, std::uint64_t bytes, std::uint32_t stream) override {
    ASSERT_EQ(blocks_.count(block), 1u);
    EXPECT_EQ(blocks_[block], bytes);
    blocks_.erase(block);
    live_ -= (bytes + 99) / 100 * 100;
    calls += "-" + std::to_string(stream);
  }
  std::uint64_t reserved() override { return live_; }
  std::uint64_t peak_reserved() override { return peak_; }

  std::string calls;

 private:
  std::uint64_t limit_, live_ = 0, peak_ = 0, last_ = 0;
  std::map<std::uint64_t, std::uint64_t> blocks_;
};

Workload workload() {
  WorkloadBuilder builder;
  builder.allocate(1, 150, 0);
  builder.allocate(2, 250, 5);
  EXPECT_TRUE(builder.free(1));
  EXPECT_FALSE(builder.free(1));
  builder.allocate(3, 50, 0);
  EXPECT_TRUE(builder.free(2, 0));
  builder.allocate(4, 90, 5);
  return builder.take();
}

TEST(Replay, PeaksAreThoseOfTheWorkloadAndTheTarget) {
  Rounding target(~std::uint64_t{0});
  const Outcome outcome = run(workload(), target, 3);
  EXPECT_EQ(outcome.peak_live, 400u);
  EXPECT_EQ(outcome.peak_reserved, 500u);
  EXPECT_DOUBLE_EQ(outcome.ratio(), 1.25);
  EXPECT_EQ(outcome.steps, 6u);
  EXPECT_EQ(outcome.allocations, 4u);
  EXPECT_FALSE(outcome.stop.has_value());
  EXPECT_GT(outcome.step_ns, 0);
  // The last two are what was left at the end.
  EXPECT_EQ(target.calls, "+0+1-0+0-0+1-0-1");
}

TEST(Replay, SamplesHaveWhatWasLiveAtItsHighestAndWhatIsReserved) {
  Rounding target(~std::uint64_t{0});
  const Outcome outcome = run(workload(), target, 3);
  ASSERT_EQ(outcome.samples.size(), 3u);
  EXPECT_EQ(outcome.samples[0].live, 400u);
  EXPECT_EQ(outcome.samples[0].reserved, 500u);
  EXPECT_EQ(outcome.samples[1].live, 400u) << "it was live when the part began";
  EXPECT_EQ(outcome.samples[2].live, 300u);
  EXPECT_EQ(outcome.samples[2].reserved, 200u);
}

TEST(Replay, ItStopsAtTheFirstRefusal) {
  Rounding target(400);
  const Outcome outcome = run(workload(), target, 1);
  ASSERT_TRUE(outcome.stop.has_value());
  EXPECT_EQ(outcome.stop->step, 2u);
  EXPECT_EQ(outcome.stop->bytes, 250u);
  EXPECT_EQ(outcome.stop->live, 150u);
  EXPECT_EQ(outcome.stop->reserved, 200u);
  EXPECT_EQ(outcome.steps, 1u);
  EXPECT_EQ(outcome.peak_live, 150u);
}

std::optional<std::uint64_t> search(const Search& search, std::uint64_t enough, int* tries) {
  return smallest_limit(search, [&](std::uint64_t limit) {
    ++*tries;
    EXPECT_LE(limit, search.most);
    return limit >= enough;
  });
}

TEST(SmallestLimit, IsFoundToTheUnit) {
  for (std::uint64_t enough = 1; enough <= 300; ++enough) {
    int tries = 0;
    const std::uint64_t least = std::max<std::uint64_t>(100, enough);
    EXPECT_EQ(search({100, 150, 1000, 1}, enough, &tries), least);
    EXPECT_LE(tries, 20);
  }
  int tries = 0;
  EXPECT_EQ(search({95, 480, 1000, 10}, 233, &tries), 240u);
}

TEST(SmallestLimit, NothingDoesWhatTheCardCannotHold) {
  int tries = 0;
  EXPECT_EQ(search({100, 150, 1000, 1}, 1001, &tries), std::nullopt);
  EXPECT_EQ(search({100, 150, 1000, 1}, 1000, &tries), 1000u);
  EXPECT_EQ(search({100, 5000, 1000, 1}, 700, &tries), 700u);
  tries = 0;
  EXPECT_EQ(search({2000, 2000, 1000, 1}, 1, &tries), std::nullopt);
  EXPECT_EQ(tries, 0);
}

}  // namespace
}  // namespace vram::replay
