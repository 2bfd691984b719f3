#include "config/limit_rules.h"

#include <gtest/gtest.h>

namespace vram::config {
namespace {

constexpr std::uint64_t kMiB = std::uint64_t{1} << 20, kGiB = kMiB << 10;

Card card_of(int major) {
  Card card;
  card.major = major;
  return card;
}

TEST(LimitRules, TheReserveFollowsTheGeneration) {
  struct {
    std::uint64_t free;
    int major;
    std::uint64_t mib;
  } const rows[] = {{2 * kGiB - 1, 9, 225}, {2 * kGiB, 3, 500},  {8 * kGiB, 6, 500},
                    {8 * kGiB, 7, 1050},    {8 * kGiB, 8, 1536}, {8 * kGiB, 9, 1800},
                    {8 * kGiB, 12, 1800}};
  for (const auto& row : rows) {
    EXPECT_EQ(min_system_memory(row.free, row.major), row.mib * kMiB) << row.major;
  }
}

TEST(LimitRules, WithoutAFractionItIsFreeLessTheReserve) {
  const CardMemory memory{20 * kGiB, 24 * kGiB};
  EXPECT_EQ(single_device_limit(card_of(9), memory, {}).bytes,
            static_cast<std::int64_t>(20 * kGiB - 1800 * kMiB));
}

TEST(LimitRules, TheReserveStaysOutWhereItIsAllThereIs) {
  const CardMemory memory{225 * kMiB, 24 * kGiB};
  EXPECT_EQ(single_device_limit(card_of(8), memory, {}).bytes,
            static_cast<std::int64_t>(225 * kMiB));
}

TEST(LimitRules, AFractionIsOfTheTotalWhateverIsFree) {
  const CardMemory memory{1 * kGiB, 24 * kGiB};
  EXPECT_EQ(single_device_limit(card_of(8), memory, {0.5, 0, {}}).bytes,
            static_cast<std::int64_t>(12 * kGiB));
  EXPECT_LT(single_device_limit(card_of(8), memory, {-0.5, 0, {}}).bytes, 0);
}

TEST(LimitRules, SystemMemoryOverridesTheFraction) {
  const CardMemory memory{20 * kGiB, 24 * kGiB};
  EXPECT_EQ(single_device_limit(card_of(8), memory, {0.5, 4096, {}}).bytes,
            static_cast<std::int64_t>(16 * kGiB));
  EXPECT_EQ(single_device_limit(card_of(8), memory, {0.5, 4096, 1024}).bytes,
            static_cast<std::int64_t>(19 * kGiB))
      << "the environment comes last";
  EXPECT_EQ(single_device_limit(card_of(8), memory, {0, 0, 0}).bytes,
            static_cast<std::int64_t>(20 * kGiB));
}

TEST(LimitRules, SystemMemoryAboveWhatIsFreeIsIgnoredAndTold) {
  const CardMemory memory{20 * kGiB, 24 * kGiB};
  const LimitAnswer answer = single_device_limit(card_of(8), memory, {0.5, 0, 20481});
  EXPECT_EQ(answer.bytes, static_cast<std::int64_t>(12 * kGiB));
  ASSERT_EQ(answer.ignored.size(), 1U);
  EXPECT_EQ(answer.ignored[0],
            "TF_DEVICE_MIN_SYS_MEMORY_IN_MB: 20481 MiB to leave alone on GPU 0 is more than is "
            "free (20GiB); use less");
}

TEST(LimitRules, VirtualDevicesAreCutToWholeMib) {
  EXPECT_EQ(virtual_device_limit(123.9F), static_cast<std::int64_t>(123 * kMiB));
  EXPECT_EQ(virtual_device_limit(-5), -5 * static_cast<std::int64_t>(kMiB));
}

TEST(LimitRules, ManagedMemoryNeedsPascal) {
  EXPECT_TRUE(check_managed(card_of(6)));
  EXPECT_EQ(check_managed(card_of(5)).error().kind, FaultKind::kInternal);
}

}  // namespace
}  // namespace vram::config
