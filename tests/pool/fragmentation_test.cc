// What vram's own pool holds beyond what is live, on a card of bookkeeping: over every recorded
// trace of bench/traces, and over programs that are hard on it.

#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>

#include "pool/dry_driver.h"
#include "replay/pools.h"
#include "replay/recorded.h"
#include "synthetic.h"

namespace vram::replay {
namespace {

constexpr double kMeanTarget = 1.03;
constexpr double kWorstTarget = 1.08;
constexpr std::uint64_t kCard = std::uint64_t{141} << 30;

std::vector<std::string> traces() {
  std::vector<std::string> found;
  for (const auto& entry : std::filesystem::directory_iterator(VRAM_TRACES)) {
    if (entry.path().extension() == ".gz") found.push_back(entry.path());
  }
  std::sort(found.begin(), found.end());
  return found;
}

double ratio_of(const std::string& name, const Workload& workload) {
  const auto device = Device::dry(kCard);
  const auto outcome = run_pool(workload, *device, pool::Kind::kSegments, pool::kNoLimit, 1);
  EXPECT_TRUE(static_cast<bool>(outcome)) << outcome.error();
  if (!outcome) return 0;
  EXPECT_FALSE(outcome->stop.has_value()) << name << " was refused";
  EXPECT_EQ(pool::dry_counts().faults, 0u);
  printf("%-32s %6.4f of %7.1f MiB live, %6zu steps, %6llu pages mapped, %4.0f ns a step\n",
         name.c_str(), outcome->ratio(), static_cast<double>(outcome->peak_live) / (1 << 20),
         workload.steps.size(), static_cast<unsigned long long>(outcome->pages_mapped),
         outcome->step_ns);
  return outcome->ratio();
}

TEST(Fragmentation, RecordedTracesStayWithinTheTargets) {
  const std::vector<std::string> paths = traces();
  ASSERT_GE(paths.size(), 7u);
  double sum = 0;
  for (const std::string& path : paths) {
    const auto recorded = read_recorded(path, {});
    ASSERT_TRUE(static_cast<bool>(recorded)) << recorded.error();
    EXPECT_FALSE(recorded->truncated) << path;
    const std::string name = std::filesystem::path(path).filename();
    const double ratio = ratio_of(name, recorded->workload);
    EXPECT_LE(ratio, kWorstTarget) << name;
    EXPECT_GE(ratio, 1.0) << name;
    sum += ratio;
  }
  EXPECT_LE(sum / static_cast<double>(paths.size()), kMeanTarget);
  printf("mean %.4f\n", sum / static_cast<double>(paths.size()));
}

TEST(Fragmentation, HardProgramsStayWithinTheirBounds) {
  for (const Synthetic& hard : synthetic_workloads()) {
    EXPECT_LE(ratio_of(hard.name, hard.workload), hard.bound) << hard.name;
  }
}

}  // namespace
}  // namespace vram::replay
