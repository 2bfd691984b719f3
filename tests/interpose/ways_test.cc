// Every way to take memory ends at the limit, and gives back what it took.
#include <gtest/gtest.h>

#include "harness.h"

namespace vram::interpose_test {
namespace {

class Way : public ::testing::TestWithParam<const char*> {};

TEST_P(Way, EndsAtTheLimitAndGivesBack) {
  const Bench bench;
  const Outcome outcome =
      bench.governed({"-m", "2GiB"}, "ways", {GetParam(), std::to_string(std::size_t{2} << 30)});
  EXPECT_EQ(outcome.status, 0) << shown(outcome);
}

INSTANTIATE_TEST_SUITE_P(All, Way,
                         ::testing::Values("alloc", "alloc_freed_in_order", "small", "pitch",
                                           "managed", "array", "array3d", "mipmap", "create",
                                           "create_map_release", "async", "async_freed_at_once",
                                           "pool", "current_pool", "graph_node", "captured"),
                         [](const auto& one) { return std::string(one.param); });

}  // namespace
}  // namespace vram::interpose_test
