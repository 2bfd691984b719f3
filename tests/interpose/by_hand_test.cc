// The stand-ins loaded by hand, without `vram run`: a limit in the environment holds, and one that
// cannot be understood refuses instead of meaning "no limit", and says why.
#include <gtest/gtest.h>

#include "harness.h"

namespace vram::interpose_test {
namespace {

constexpr char kTwoAndThreeGiB[] =
    "import ctypes\n"
    "cuda = ctypes.CDLL('libcuda.so.1')\n"
    "nvml = ctypes.CDLL('libnvidia-ml.so.1')\n"
    "context, block, card = ctypes.c_void_p(), ctypes.c_uint64(), ctypes.c_void_p()\n"
    "memory = (ctypes.c_ulonglong * 3)()\n"
    "take = lambda gib: cuda.cuMemAlloc_v2(ctypes.byref(block), ctypes.c_size_t(gib << 30))\n"
    "print(cuda.cuInit(0), cuda.cuDevicePrimaryCtxRetain(ctypes.byref(context), 0),\n"
    "      cuda.cuCtxSetCurrent(context), take(2), take(3))\n"
    "nvml.nvmlInit_v2(); nvml.nvmlDeviceGetHandleByIndex_v2(0, ctypes.byref(card))\n"
    "nvml.nvmlDeviceGetMemoryInfo(card, memory)\n"
    "print(memory[0] >> 20, memory[2] >> 30)\n";

Outcome by_hand(const Words& environment) {
  const Bench bench;
  Words line = {
      "/usr/bin/env", "LD_LIBRARY_PATH=" + built("lib/sim"),
      "LD_PRELOAD=" + built("lib/vram/libcuda.so.1") + ":" + built("lib/vram/libnvidia-ml.so.1"),
      "VRAM_SIM=1x24GiB"};
  line.insert(line.end(), environment.begin(), environment.end());
  line.insert(line.end(), {"/usr/bin/python3", "-c", kTwoAndThreeGiB});
  return bench.command(line);
}

TEST(ByHand, LimitInTheEnvironmentHoldsAndIsSeenByNvml) {
  const Outcome outcome = by_hand({"VRAM_LIMIT=4GiB"});
  EXPECT_EQ(outcome.out, "0 0 0 0 2\n4096 2\n") << shown(outcome);
}

TEST(ByHand, PerProcessGpuMemoryIsInMiB) {
  const Outcome outcome = by_hand({"PER_PROCESS_GPU_MEMORY=4096"});
  EXPECT_EQ(outcome.out, "0 0 0 0 2\n4096 2\n") << shown(outcome);
}

TEST(ByHand, ShareOfTheCardHolds) {
  const Outcome outcome = by_hand({"VRAM_LIMIT=20%"});
  EXPECT_EQ(outcome.out.substr(0, 10), "0 0 0 0 2\n") << shown(outcome);
}

// Nobody has measured what a context takes here: it is made, found too large and taken down again.
TEST(ByHand, AContextThatDoesNotFitIsRefused) {
  const Outcome outcome = by_hand({"VRAM_LIMIT=300MiB"});
  EXPECT_EQ(outcome.out.substr(0, 4), "0 2 ") << shown(outcome);
}

TEST(ByHand, WithoutALimitNothingIsGoverned) {
  const Outcome outcome = by_hand({});
  EXPECT_EQ(outcome.out.substr(0, 10), "0 0 0 0 0\n") << shown(outcome);
}

TEST(ByHand, AnUnreadableLimitRefusesAndSaysWhyOnce) {
  for (const char* wrong : {"VRAM_LIMIT=4", "VRAM_LIMIT=many", "PER_PROCESS_GPU_MEMORY=4GiB"}) {
    const Outcome outcome = by_hand({wrong});
    EXPECT_EQ(outcome.out.substr(0, 4), "304 ") << wrong << shown(outcome);
    EXPECT_EQ(outcome.err.find("vram: "), 0u) << shown(outcome);
    EXPECT_EQ(outcome.err.find("vram: ", 1), std::string::npos) << shown(outcome);
  }
}

TEST(ByHand, AJobThatIsGoneRefusesUnlessAllowed) {
  const Outcome refused = by_hand({"VRAM_JOB=/nowhere/x.job"});
  EXPECT_EQ(refused.out.substr(0, 4), "304 ") << shown(refused);
  EXPECT_NE(refused.err.find("/nowhere/x.job: there is no such job file"), std::string::npos);
  const Outcome allowed = by_hand({"VRAM_JOB=/nowhere/x.job", "VRAM_ON_FAILURE=allow"});
  EXPECT_EQ(allowed.out.substr(0, 10), "0 0 0 0 0\n") << shown(allowed);
  EXPECT_NE(allowed.err.find("without a limit"), std::string::npos) << shown(allowed);
}

}  // namespace
}  // namespace vram::interpose_test
