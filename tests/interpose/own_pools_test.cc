// What `vram run --alloc vram` promises beyond what the driver's pools do.
#include <gtest/gtest.h>

#include "harness.h"

namespace vram::interpose_test {
namespace {

class OwnPool : public ::testing::TestWithParam<const char*> {};

TEST_P(OwnPool, DoesWhatAProgramExpects) {
  const Bench bench;
  const Outcome outcome =
      bench.governed({"-m", "2GiB", "--alloc", "vram"}, "own_pool", {GetParam()});
  EXPECT_EQ(outcome.status, 0) << shown(outcome);
}

INSTANTIATE_TEST_SUITE_P(All, OwnPool,
                         ::testing::Values("serves", "idle", "others_get_it", "statistics",
                                           "wrong_frees", "forked", "ended"),
                         [](const auto& one) { return std::string(one.param); });

TEST(OwnPools, TheDriverServesUnlessAsked) {
  const Bench bench;
  const Outcome outcome =
      bench.governed({"-m", "2GiB", "--alloc", "driver"}, "own_pool", {"serves"});
  EXPECT_NE(outcome.status, 0);
  EXPECT_NE(outcome.err.find("held() - before"), std::string::npos) << shown(outcome);
}

}  // namespace
}  // namespace vram::interpose_test
