// A program with room enough cannot tell whether it is governed.
#include <gtest/gtest.h>

#include <algorithm>

#include "harness.h"

namespace vram::interpose_test {
namespace {

class Differential : public ::testing::TestWithParam<int> {};

// Where the two texts part, with some lines before.
std::string first_difference(const std::string& a, const std::string& b) {
  const auto at = std::mismatch(a.begin(), a.end(), b.begin(), b.end());
  const std::size_t from = static_cast<std::size_t>(at.first - a.begin());
  const std::size_t start = from > 200 ? from - 200 : 0;
  return "bare:     ..." + a.substr(start, 300) + "\n\ngoverned: ..." + b.substr(start, 300);
}

TEST_P(Differential, GovernedCallsAnswerAsTheBareDriver) {
  const Words arguments = {std::to_string(GetParam()), "1500"};
  const Bench bench("2x24GiB");
  const Outcome bare = bench.bare("random_calls", arguments);
  const Outcome governed = bench.governed({"-m", "20GiB"}, "random_calls", arguments);
  EXPECT_EQ(bare.status, 0) << bare.err;
  EXPECT_EQ(governed.status, 0) << governed.err;
  EXPECT_GE(std::count(bare.out.begin(), bare.out.end(), '\n'), 2000);
  EXPECT_TRUE(bare.out == governed.out) << first_difference(bare.out, governed.out);
}

INSTANTIATE_TEST_SUITE_P(Seeds, Differential, ::testing::Range(1, 9));

}  // namespace
}  // namespace vram::interpose_test
