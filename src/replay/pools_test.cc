#include "replay/pools.h"

#include <gtest/gtest.h>

#include <set>

#include "pool/dry_driver.h"

namespace vram::replay {
namespace {

constexpr std::uint64_t kMiB = std::uint64_t{1} << 20;
constexpr std::uint64_t kGiB = std::uint64_t{1} << 30;

Workload workload() {
  WorkloadBuilder builder;
  builder.allocate(1, 100 * kMiB, 0);
  builder.allocate(2, 40 * kMiB, 3);
  builder.free(1);
  builder.allocate(3, 90 * kMiB, 4);
  builder.free(2, 4);
  return builder.take();
}

TEST(ReplayedPools, SegmentsHoldWhatIsLive) {
  const auto device = Device::dry(kGiB);
  const auto outcome = run_pool(workload(), *device, pool::Kind::kSegments, pool::kNoLimit, 4);
  ASSERT_TRUE(static_cast<bool>(outcome)) << outcome.error();
  EXPECT_EQ(outcome->peak_live, 140 * kMiB);
  EXPECT_GE(outcome->peak_reserved, 140 * kMiB);
  EXPECT_LE(outcome->peak_reserved, 160 * kMiB);
  EXPECT_FALSE(outcome->stop.has_value());
  EXPECT_GE(outcome->bytes_mapped, 140 * kMiB);
  EXPECT_GE(outcome->pages_mapped, outcome->bytes_mapped / (64 * kMiB));
  EXPECT_EQ(pool::dry_counts().bytes, 0u) << "the pool is gone";
  EXPECT_EQ(pool::dry_counts().faults, 0u);
}

TEST(ReplayedPools, TensorflowsTakesRegionsAndMapsNothing) {
  const auto device = Device::dry(kGiB);
  const auto outcome = run_pool(workload(), *device, pool::Kind::kBfc, pool::kNoLimit, 4);
  ASSERT_TRUE(static_cast<bool>(outcome)) << outcome.error();
  EXPECT_FALSE(outcome->stop.has_value());
  EXPECT_EQ(outcome->peak_live, 140 * kMiB);
  EXPECT_GE(outcome->peak_reserved, 140 * kMiB);
  EXPECT_EQ(outcome->bytes_mapped, 0u);
  EXPECT_EQ(pool::dry_counts().bytes, 0u);
}

TEST(ReplayedPools, ALimitStopsThem) {
  const auto device = Device::dry(kGiB);
  const auto outcome = run_pool(workload(), *device, pool::Kind::kSegments, 128 * kMiB, 4);
  ASSERT_TRUE(static_cast<bool>(outcome)) << outcome.error();
  ASSERT_TRUE(outcome->stop.has_value());
  EXPECT_EQ(outcome->stop->step, 2u);
  EXPECT_EQ(outcome->stop->bytes, 40 * kMiB);
  EXPECT_EQ(outcome->stop->live, 100 * kMiB);
  EXPECT_LE(outcome->peak_reserved, 128 * kMiB);
  EXPECT_EQ(pool::dry_counts().bytes, 0u);
}

TEST(ReplayedPools, ACardStopsThem) {
  const auto device = Device::dry(64 * kMiB);
  const auto outcome = run_pool(workload(), *device, pool::Kind::kSegments, pool::kNoLimit, 4);
  ASSERT_TRUE(static_cast<bool>(outcome)) << outcome.error();
  EXPECT_EQ(outcome->stop->step, 1u);
}

TEST(ReplayedPools, StreamsOfADryCardAreDistinct) {
  const auto device = Device::dry(kGiB);
  const std::vector<CUstream>& streams = device->streams(100);
  ASSERT_EQ(streams.size(), 100u);
  EXPECT_EQ(streams[0], nullptr);
  EXPECT_EQ(std::set<CUstream>(streams.begin(), streams.end()).size(), 100u);
}

TEST(ReplayedPools, TheDriversOwnPoolNeedsADriver) {
  const auto device = Device::dry(kGiB);
  const auto outcome = run_pool(workload(), *device, pool::Kind::kDriverAsync, pool::kNoLimit, 1);
  ASSERT_FALSE(static_cast<bool>(outcome));
  EXPECT_EQ(outcome.error(),
            "it is the driver's own, and this card has no driver; use --real or --sim");
}

TEST(ReplayedPools, EveryNameIsFound) {
  for (const NamedPool& pool : kPools) EXPECT_EQ(find_pool(pool.name)->kind, pool.kind);
  EXPECT_FALSE(find_pool("segment").has_value());
}

}  // namespace
}  // namespace vram::replay
