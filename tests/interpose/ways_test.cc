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
                                           "pool", "current_pool", "set_pool",
                                           "waited_for_by_event", "graph_node", "graph_uploaded",
                                           "graph_of_many_nodes", "child_graph", "captured"),
                         [](const auto& one) { return std::string(one.param); });

// These have calls of their own for a program with a default stream for each thread.
class WayPerThread : public ::testing::TestWithParam<const char*> {};

TEST_P(WayPerThread, EndsAtTheLimitAndGivesBack) {
  const Bench bench;
  const Outcome outcome = bench.governed({"-m", "2GiB"}, "ways_per_thread",
                                         {GetParam(), std::to_string(std::size_t{2} << 30)});
  EXPECT_EQ(outcome.status, 0) << shown(outcome);
}

INSTANTIATE_TEST_SUITE_P(All, WayPerThread,
                         ::testing::Values("alloc_freed_in_order", "async", "pool", "graph_node",
                                           "graph_uploaded", "captured"),
                         [](const auto& one) { return std::string(one.param); });

void expect_holds(const std::string& program, const Words& options, const std::string& cards,
                  const Words& arguments = {}) {
  const Bench bench(cards);
  const Outcome outcome = bench.governed(options, program, arguments);
  EXPECT_EQ(outcome.status, 0) << shown(outcome);
}

TEST(Memory, VirtualCountsUntilHandleAndMappingsAreGone) {
  expect_holds("virtual_memory", {"-m", "0=4GiB,1=2GiB"}, "2x24GiB");
}
TEST(Memory, ContextsTakeTheirMemoryAlong) {
  expect_holds("contexts", {"-m", "90GiB"}, "1x141GiB", {std::to_string(std::size_t{90} << 30)});
}
TEST(Memory, GreenContextsCountAndGiveBack) {
  expect_holds("green_contexts", {"-m", "4GiB"}, "1x24GiB", {std::to_string(std::size_t{4} << 30)});
}
TEST(Memory, GreenContextsThatTheDriverRefusesCostNothing) {
  Bench bench;
  bench.set("VRAM_SIM_FAULTS=cuGreenCtxCreate:1=999,cuGreenCtxDestroy:1=999");
  const Outcome outcome = bench.governed({"-m", "4GiB"}, "green_contexts",
                                         {std::to_string(std::size_t{4} << 30), "failing"});
  EXPECT_EQ(outcome.status, 0) << shown(outcome);
}
TEST(Memory, UnderADmaBufCountsUntilItIsClosed) {
  expect_holds("dma_buf", {"-m", "4GiB"}, "1x24GiB");
}

// What another program exports to `mode` under the limit.
Words exported_to(const std::string& mode) {
  return {"export", built("bin/vram"),
          "run",    "-q",
          "--sim",  "1x24GiB",
          "-m",     "2GiB",
          "--",     program_path("external_memory"),
          mode};
}

TEST(Memory, OfAnotherInterfaceCountsWithWhoImportsIt) {
  const Bench bench;
  const Outcome outcome = bench.bare("external_memory", exported_to("charged"));
  EXPECT_EQ(outcome.status, 0) << shown(outcome);
}
TEST(Memory, OfAnotherInterfaceAnswersAsBare) {
  const Bench bench;
  const Outcome governed = bench.bare("external_memory", exported_to("answers"));
  const Outcome bare =
      bench.bare("external_memory", {"export", program_path("external_memory"), "answers"});
  EXPECT_EQ(governed.status, 0) << shown(governed);
  EXPECT_EQ(bare.status, 0) << shown(bare);
  EXPECT_EQ(governed.out, bare.out);
}
TEST(Memory, OfAnotherInterfaceThatTheDriverRefusesCostsNothing) {
  Bench bench;
  bench.set("VRAM_SIM_FAULTS=cuImportExternalMemory:1=999,cuDestroyExternalMemory:1=999");
  const Outcome outcome = bench.bare("external_memory", exported_to("failing"));
  EXPECT_EQ(outcome.status, 0) << shown(outcome);
}
TEST(Memory, OfAnotherInterfaceInTheSameProcessCountsOnce) {
  expect_holds("external_memory", {"-m", "2GiB"}, "1x24GiB", {"own"});
}
TEST(Memory, ModulesCountWhileLoaded) { expect_holds("modules", {"-m", "1GiB"}, "1x24GiB"); }
TEST(Memory, WhatAKernelTookAtItsLaunchIsNotGivenAwayAgain) {
  expect_holds("grows_at_launch", {"-m", "30GiB"}, "1x141GiB",
               {std::to_string(std::size_t{30} << 30)});
}
TEST(Memory, APoolGivesBackWhatItKeepsBeforeARequestIsRefused) {
  expect_holds("pool_at_limit", {"-m", "2GiB"}, "1x24GiB");
}
TEST(Memory, AGraphNeedsRoomAgainAfterATrim) {
  expect_holds("graph_after_trim", {"-m", "700MiB"}, "1x24GiB",
               {std::to_string(std::size_t{700} << 20)});
}
TEST(Memory, StreamsAreChargedAsTheCardSays) {
  expect_holds("streams", {"-m", "600MiB"}, "1x24GiB", {std::to_string(std::size_t{600} << 20)});
}
TEST(Memory, SharedBetweenProcessesCountsOnce) {
  expect_holds("shared_between_processes", {"-m", "4GiB"}, "1x24GiB");
}
TEST(Memory, CapturesSurvive) { expect_holds("capture_survives", {"-m", "4GiB"}, "1x24GiB"); }

}  // namespace
}  // namespace vram::interpose_test
