// A program is shown its limit as its card, whichever way it numbers the cards.
#include <gtest/gtest.h>

#include "harness.h"

namespace vram::interpose_test {
namespace {

const std::string kFour = std::to_string(std::size_t{4} << 30);
const std::string kTwo = std::to_string(std::size_t{2} << 30);

// What the program printed of its numbering.
void expect_view(const Words& options, const Words& variables, const Words& limits,
                 const std::string& numbering) {
  Bench bench("2x24GiB");
  for (const std::string& variable : variables) bench.set(variable);
  Words arguments = {built("lib/sim")};
  arguments.insert(arguments.end(), limits.begin(), limits.end());
  const Outcome outcome = bench.governed(options, "view", arguments);
  EXPECT_EQ(outcome.status, 0) << shown(outcome);
  EXPECT_EQ(outcome.out, numbering) << outcome.err;
}

TEST(View, OfEachCardIsItsLimit) {
  expect_view({"-m", "0=4GiB,1=2GiB"}, {}, {kFour, kTwo}, "0 is card 0\n1 is card 1\n");
}
TEST(View, KeepsLimitsWithTheirCardsWhenReordered) {
  expect_view({"-m", "0=4GiB,1=2GiB"}, {"CUDA_VISIBLE_DEVICES=1,0"}, {kFour, kTwo},
              "0 is card 1\n1 is card 0\n");
}
TEST(View, KeepsTheLimitOfTheOnlyCardSeen) {
  expect_view({"-m", "1=2GiB"}, {"CUDA_VISIBLE_DEVICES=1"}, {"0", kTwo}, "0 is card 1\n");
}
TEST(View, FollowsTheCardThatIsChosenOnTheCommandLine) {
  expect_view({"-m", "2GiB", "--gpu", "1"}, {}, {"0", kTwo}, "0 is card 1\n");
}
TEST(View, FollowsACardNamedByUuid) {
  Bench bench("2x24GiB");
  const Outcome names =
      bench.governed({}, "/usr/bin/python3",
                     {"-c",
                      "import ctypes\n"
                      "n = ctypes.CDLL('libnvidia-ml.so.1')\n"
                      "n.nvmlInit_v2()\n"
                      "d, t = ctypes.c_void_p(), ctypes.create_string_buffer(96)\n"
                      "n.nvmlDeviceGetHandleByIndex_v2(1, ctypes.byref(d))\n"
                      "n.nvmlDeviceGetUUID(d, t, 96)\n"
                      "print(t.value.decode())\n"});
  ASSERT_EQ(names.status, 0) << shown(names);
  const std::string uuid = names.out.substr(0, names.out.size() - 1);
  bench.set("CUDA_VISIBLE_DEVICES=" + uuid);
  const Outcome outcome = bench.governed({"-m", "1=2GiB"}, "view", {built("lib/sim"), "0", kTwo});
  EXPECT_EQ(outcome.status, 0) << shown(outcome);
  EXPECT_EQ(outcome.out, "0 is card 1\n") << outcome.err;
}

// Whatever name the management library is opened by.
TEST(View, OfTheManagementLibraryIsTheLimitByEveryName) {
  const Bench bench;
  for (const std::string& name : {std::string("libnvidia-ml.so.1"), std::string("libnvidia-ml.so"),
                                  built("lib/sim/libnvidia-ml.so.1")}) {
    const Outcome outcome =
        bench.governed({}, "/usr/bin/env",
                       {"LD_LIBRARY_PATH=" + built("lib/sim"), "/usr/bin/python3", "-c",
                        "import ctypes, sys\n"
                        "n = ctypes.CDLL(sys.argv[1])\n"
                        "d, m = ctypes.c_void_p(), (ctypes.c_ulonglong * 3)()\n"
                        "n.nvmlInit_v2()\n"
                        "n.nvmlDeviceGetHandleByIndex_v2(0, ctypes.byref(d))\n"
                        "print(n.nvmlDeviceGetMemoryInfo(d, m), m[0] >> 20)\n",
                        name});
    EXPECT_EQ(outcome.out, "0 4096\n") << name << "\n" << shown(outcome);
  }
}

TEST(View, OfACardsAbilitiesIsTheDriversOwn) {
  const Bench bench("2x24GiB");
  const Outcome bare = bench.bare("attributes");
  const Outcome governed = bench.governed({"-m", "4GiB"}, "attributes");
  EXPECT_EQ(bare.status, 0) << shown(bare);
  EXPECT_EQ(governed.status, 0) << shown(governed);
  EXPECT_EQ(governed.out, bare.out);
}

}  // namespace
}  // namespace vram::interpose_test
