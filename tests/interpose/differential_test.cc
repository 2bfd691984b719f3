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

// A driver that fails in the middle: the same answers, and as much charged in the end as the card
// says.
class Failing : public ::testing::TestWithParam<const char*> {};

TEST_P(Failing, CallsAnswerAndCountAsTheBareDriver) {
  for (const char* fault : {":every=3=2", ":every=2=999", ":every=5=1"}) {
    const Words arguments = {"7", "700"};
    Bench bench("2x24GiB");
    bench.set("VRAM_SIM_FAULTS=" + std::string(GetParam()) + fault);
    const Outcome bare = bench.bare("random_calls", arguments);
    const Outcome governed = bench.governed({"-m", "20GiB"}, "random_calls", arguments);
    EXPECT_EQ(bare.status, 0) << bare.err;
    EXPECT_EQ(governed.status, 0) << governed.err;
    EXPECT_TRUE(bare.out == governed.out) << first_difference(bare.out, governed.out);
  }
}

INSTANTIATE_TEST_SUITE_P(
    Symbols, Failing,
    ::testing::Values("cuMemAlloc_v2", "cuMemAllocPitch_v2", "cuMemFree_v2", "cuMemFreeAsync",
                      "cuMemCreate", "cuMemRelease", "cuMemMap", "cuMemUnmap",
                      "cuMemRetainAllocationHandle", "cuMemPoolCreate", "cuMemPoolDestroy",
                      "cuCtxSynchronize", "cuGraphInstantiateWithFlags", "cuGraphLaunch",
                      "cuGraphExecDestroy", "cuDeviceGraphMemTrim", "cuCtxCreate_v4",
                      "cuCtxDestroy_v2", "cuDevicePrimaryCtxRetain", "cuDevicePrimaryCtxReset_v2",
                      "cuCtxSetLimit", "cuModuleLoadData", "cuModuleUnload",
                      "cuMemGetAddressRange_v2"),
    [](const auto& one) { return std::string(one.param); });

// The interposer asks these itself, so that calls are not counted alike; what holds is that nothing
// stays charged.
class FailingInside : public ::testing::TestWithParam<const char*> {};

TEST_P(FailingInside, NothingStaysCharged) {
  for (const char* fault : {":every=3=2", ":every=2=999"}) {
    Bench bench("2x24GiB");
    bench.set("VRAM_SIM_FAULTS=" + std::string(GetParam()) + fault);
    const Outcome governed = bench.governed({"-m", "20GiB"}, "random_calls", {"7", "700"});
    EXPECT_EQ(governed.status, 0) << governed.err;
    EXPECT_NE(governed.out.find("not back: 0\n"), std::string::npos)
        << governed.out.substr(governed.out.size() - 50);
  }
}

INSTANTIATE_TEST_SUITE_P(
    Symbols, FailingInside,
    ::testing::Values("cuMemAllocManaged", "cuMemAllocAsync", "cuMemAllocFromPoolAsync",
                      "cuStreamSynchronize", "cuArrayCreate_v2", "cuArray3DCreate_v2",
                      "cuArrayDestroy", "cuMipmappedArrayCreate", "cuMipmappedArrayDestroy",
                      "cuMemPoolTrimTo", "cuMemPoolGetAttribute", "cuArrayGetMemoryRequirements",
                      "cuMipmappedArrayGetMemoryRequirements", "cuDeviceGetGraphMemAttribute",
                      "cuGraphGetNodes", "cuStreamGetCtx", "cuStreamIsCapturing",
                      "cuThreadExchangeStreamCaptureMode", "cuDeviceGetMemPool"),
    [](const auto& one) { return std::string(one.param); });

INSTANTIATE_TEST_SUITE_P(Seeds, Differential, ::testing::Range(1, 9));

}  // namespace
}  // namespace vram::interpose_test
