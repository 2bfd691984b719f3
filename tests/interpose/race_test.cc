// A limit holds while many threads of many processes race for it, and refuses nothing that fits.
#include <gtest/gtest.h>

#include "harness.h"

namespace vram::interpose_test {
namespace {

// PROCESSES THREADS MILLISECONDS FAMILIES, as programs/race.cc has them.
void expect_race_holds(std::size_t mib, const Words& how) {
  const Bench bench;
  Words arguments = {std::to_string(mib << 20)};
  arguments.insert(arguments.end(), how.begin(), how.end());
  const Outcome outcome = bench.governed({"-m", std::to_string(mib) + "MiB"}, "race", arguments);
  EXPECT_EQ(outcome.status, 0) << shown(outcome);
}

// A context takes 518 MiB of each limit.
TEST(Race, SmallBlocks) { expect_race_holds(560, {"1", "8", "1500", "s"}); }
TEST(Race, VirtualMemory) { expect_race_holds(1024, {"1", "8", "1000", "v"}); }
TEST(Race, StreamOrderedMemory) { expect_race_holds(1024, {"1", "8", "1000", "oq"}); }
TEST(Race, Graphs) { expect_race_holds(600, {"1", "4", "1000", "g"}); }
TEST(Race, StreamsAndBlocks) { expect_race_holds(1024, {"1", "8", "1000", "tb"}); }
TEST(Race, ContextsAndBlocks) { expect_race_holds(4096, {"2", "4", "1500", "cb"}); }
TEST(Race, EveryFamilyInEightProcessesOf64Threads) {
  expect_race_holds(8192, {"8", "64", "3000", "sbpavoqgt"});
}

}  // namespace
}  // namespace vram::interpose_test
