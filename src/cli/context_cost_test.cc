#include "cli/context_cost.h"

#include <gtest/gtest.h>
#include <stdlib.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>

#include "cli/cards_for_test.h"

namespace vram::cli {
namespace {

constexpr std::uint64_t kMi = 1024UL * 1024;

class ContextCostTest : public ::testing::Test {
 protected:
  void SetUp() override {
    char pattern[] = "/tmp/vram-context-XXXXXX";
    ASSERT_NE(mkdtemp(pattern), nullptr);
    folder_ = pattern;
    file_ = folder_ + "/cache/vram/context-bytes";
  }
  void TearDown() override { std::filesystem::remove_all(folder_); }

  const probe::Card card_ = test_card(0, "GPU-0", 24 * kTestGiB, "NVIDIA H200");
  std::string folder_, file_;
};

TEST_F(ContextCostTest, UnknownIsALowerBound) {
  const ContextCost cost = ContextCosts(file_, "580").of(card_);
  EXPECT_EQ(cost.bytes, 64 * kMi);
  EXPECT_FALSE(cost.measured);
}

TEST_F(ContextCostTest, AMeasurementIsKeptForItsCardAndDriver) {
  ContextCosts(file_, "580").remember("NVIDIA H200", 518 * kMi);
  ContextCosts(file_, "580").remember("NVIDIA L4", 300 * kMi);
  EXPECT_EQ(ContextCosts(file_, "580").of(card_).bytes, 518 * kMi);
  EXPECT_TRUE(ContextCosts(file_, "580").of(card_).measured);
  EXPECT_FALSE(ContextCosts(file_, "581").of(card_).measured);
}

TEST_F(ContextCostTest, TheSmallestMeasurementIsTheBound) {
  const ContextCosts costs(file_, "580");
  costs.remember("NVIDIA H200", 700 * kMi);
  costs.remember("NVIDIA H200", 518 * kMi);
  costs.remember("NVIDIA H200", 900 * kMi);
  EXPECT_EQ(costs.of(card_).bytes, 518 * kMi);
}

TEST_F(ContextCostTest, ADamagedFileCountsAsNone) {
  std::filesystem::create_directories(folder_ + "/cache/vram");
  for (const char* text : {"x\t580\tNVIDIA H200\n", "99999999999999999999\t580\tNVIDIA H200\n",
                           "1\t580\tNVIDIA H200\n", "543162368 580 NVIDIA H200\n", "\t\t\n"}) {
    std::ofstream(file_) << text;
    EXPECT_FALSE(ContextCosts(file_, "580").of(card_).measured) << text;
  }
}

TEST_F(ContextCostTest, ImpossibleMeasurementsAreNotKept) {
  const ContextCosts costs(file_, "580");
  costs.remember("NVIDIA H200", 0);
  costs.remember("NVIDIA H200", std::uint64_t{1} << 50);
  EXPECT_FALSE(costs.of(card_).measured);
}

TEST_F(ContextCostTest, WithoutAFolderNothingIsKept) {
  ContextCosts("", "580").remember("NVIDIA H200", 518 * kMi);
  EXPECT_FALSE(ContextCosts("", "580").of(card_).measured);
}

TEST_F(ContextCostTest, TheSimulatedCardIsKnown) {
  const probe::Card card = test_card(0, "GPU-0", kTestGiB, "vram simulated GPU");
  EXPECT_EQ(ContextCosts("", "").of(card).bytes, 518 * kMi);
}

}  // namespace
}  // namespace vram::cli
