// The promised behaviours, each over a machine of the test's own. S-numbers are explained at the
// end of docs/user/library.md.

#include "config/runtime.h"

#include <gtest/gtest.h>

#include <atomic>
#include <thread>

#include "config/describe.h"
#include "config/host_for_test.h"

namespace vram::config {
namespace {

using namespace vram::literals;
using compat::v1::ConfigProto;
using pool::Kind;

const PhysicalDevice kGpu0 = physical_device(0), kGpu1 = physical_device(1),
                     kCpu0 = physical_device(kCpu);

// What the default takes of a test card: free, less the reserve of compute capability 8.
constexpr std::uint64_t kDefaultLimit = 24 * kTestGiB - kTestContext - 1536 * kTestMiB;

class Configuration : public ::testing::Test {
 protected:
  explicit Configuration(Mode mode) : runtime_(host_.host()) {
    EXPECT_TRUE(runtime_.set_mode(mode));
  }
  std::vector<LogicalDevice> initialise() {
    auto devices = runtime_.list_logical_devices("GPU", "list_logical_devices()");
    EXPECT_TRUE(devices) << devices.error().message;
    return devices ? *devices : std::vector<LogicalDevice>{};
  }
  std::shared_ptr<Memory> memory(const char* name) {
    auto memory = runtime_.memory(name, "memory()");
    EXPECT_TRUE(memory) << memory.error().message;
    return memory ? *memory : nullptr;
  }
  void ok(const Outcome& outcome) {
    EXPECT_TRUE(outcome) << (outcome ? "" : outcome.error().message);
  }
  std::string notes() {
    std::string all;
    const auto snapshot = runtime_.snapshot();
    for (const std::string& line : snapshot->diagnostics) all += line + "\n";
    return all;
  }

  TestHost host_;
  Runtime runtime_;
};

class Strict : public Configuration {
 protected:
  Strict() : Configuration(Mode::kStrict) {}
};
class Compat : public Configuration {
 protected:
  Compat() : Configuration(Mode::kCompat) {}
};

TEST_F(Compat, S01GreedyDefaultTakesWhatIsFreeLessTheReserveAtTheFirstAllocation) {
  initialise();
  ASSERT_EQ(host_.pools.size(), 2U);
  EXPECT_EQ(host_.pools[0].kind, Kind::kBfc);
  EXPECT_FALSE(host_.pools[0].growth);
  EXPECT_EQ(host_.pools[0].limit, kDefaultLimit);
  EXPECT_EQ(host_.pools[0].wait_ms, 10000U);
  EXPECT_EQ(memory("GPU:0")->info().reserved.count(), 0U);
  ASSERT_TRUE(memory("GPU:0")->allocate(256, nullptr));
  EXPECT_EQ(memory("GPU:0")->info().reserved.count(), kDefaultLimit);
}

TEST_F(Strict, S01TheDefaultHasTheSameLimitAndTakesOnDemand) {
  initialise();
  EXPECT_EQ(host_.pools[0].kind, Kind::kSegments);
  EXPECT_EQ(host_.pools[0].limit, kDefaultLimit);
  ASSERT_TRUE(memory("GPU:0")->allocate(256, nullptr));
  EXPECT_EQ(memory("GPU:0")->info().reserved.count(), 256U);
}

TEST_F(Strict, S01GreedyWhereItIsAskedFor) {
  ok(runtime_.set_memory_growth(kGpu0, false));
  initialise();
  EXPECT_EQ(host_.pools[0].kind, Kind::kBfc);
  EXPECT_FALSE(host_.pools[0].growth);
}

TEST_F(Compat, S02GrowthOnDemandInBothStyles) {
  ConfigProto config;
  config.gpu_options.allow_growth = true;
  ASSERT_TRUE(runtime_.open_session(config));
  EXPECT_TRUE(host_.pools[0].growth);
  EXPECT_EQ(host_.pools[0].kind, Kind::kBfc);
}

TEST_F(Strict, S02GrowthTogetherWithACap) {
  ok(runtime_.set_memory_growth(kGpu0, true));
  ok(runtime_.set_memory_limit(kGpu0, 4_GiB));
  initialise();
  EXPECT_TRUE(host_.pools[0].growth);
  EXPECT_EQ(host_.pools[0].limit, 4 * kTestGiB);
}

TEST_F(Compat, S02OnlyTheEnvironmentGivesGrowthTogetherWithACap) {
  host_.environment["TF_FORCE_GPU_ALLOW_GROWTH"] = "true";
  ok(runtime_.set_logical_device_configuration(kGpu0, {{4_GiB, {}, {}}}));
  ok(runtime_.set_logical_device_configuration(kGpu1, {{4_GiB, {}, {}}}));
  initialise();
  EXPECT_TRUE(host_.pools[0].growth);
  EXPECT_EQ(host_.pools[0].limit, 4 * kTestGiB);
}

TEST_F(Strict, S03TrimGivesIdleMemoryBack) {
  initialise();
  const auto gpu = memory("GPU:0");
  const auto block = gpu->allocate(1000, nullptr);
  ASSERT_TRUE(block);
  ok(gpu->free(*block, nullptr));
  EXPECT_EQ(gpu->trim(0), 1000U);
  EXPECT_EQ(gpu->info().reserved.count(), 0U);
}

TEST_F(Compat, S03ClosingASessionGivesNothingBack) {
  const auto session = runtime_.open_session({});
  const auto gpu = *runtime_.session_memory(*session, "GPU:0");
  ok(gpu->free(*gpu->allocate(1000, nullptr), nullptr));
  runtime_.close_session(*session);
  EXPECT_EQ(gpu->info().reserved.count(), kDefaultLimit);
}

TEST_F(Strict, S03ClosingASessionGivesIdleMemoryBack) {
  const auto session = runtime_.open_session({});
  const auto gpu = *runtime_.session_memory(*session, "GPU:0");
  ok(gpu->free(*gpu->allocate(1000, nullptr), nullptr));
  runtime_.close_session(*session);
  EXPECT_EQ(gpu->info().reserved.count(), 0U);
}

TEST_F(Compat, S04AFractionIsOfTheTotal) {
  ConfigProto config;
  config.gpu_options.per_process_gpu_memory_fraction = 0.25;
  ASSERT_TRUE(runtime_.open_session(config));
  EXPECT_EQ(host_.pools[0].limit, 6 * kTestGiB);
}

TEST_F(Strict, S04APercentageOfEachCard) {
  host_.cards[1].total = 48 * kTestGiB;
  ok(runtime_.set_memory_limit(kGpu0, 40_percent));
  ok(runtime_.set_memory_limit(kGpu1, 40_percent));
  initialise();
  EXPECT_EQ(host_.pools[0].limit, Size(40_percent).on(24_GiB).count());
  EXPECT_EQ(host_.pools[1].limit, Size(40_percent).on(48_GiB).count());
}

TEST_F(Compat, S05FractionAndGrowthCombine) {
  ConfigProto config;
  config.gpu_options.per_process_gpu_memory_fraction = 0.5;
  config.gpu_options.allow_growth = true;
  ASSERT_TRUE(runtime_.open_session(config));
  EXPECT_EQ(host_.pools[0].limit, 12 * kTestGiB);
  EXPECT_TRUE(host_.pools[0].growth);
}

ConfigProto on_gpu(const char* list, double fraction) {
  ConfigProto config;
  config.gpu_options.visible_device_list = list;
  config.gpu_options.per_process_gpu_memory_fraction = fraction;
  return config;
}

TEST_F(Strict, S06SessionsOnDifferentGpusHaveTheirOwnLimits) {
  const auto first = runtime_.open_session(on_gpu("1", 0.25));
  const auto second = runtime_.open_session(on_gpu("0", 0.5));
  ASSERT_TRUE(first);
  ASSERT_TRUE(second);
  // Each session's GPU:0 is the first of its own list.
  EXPECT_EQ((*runtime_.session_memory(*first, "GPU:0"))->info().limit.count(), 6 * kTestGiB);
  EXPECT_EQ((*runtime_.session_memory(*second, "GPU:0"))->info().limit.count(), 12 * kTestGiB);
  EXPECT_EQ(host_.pools[0].ordinal, 1);
  EXPECT_EQ(host_.pools[1].ordinal, 0);
}

TEST_F(Strict, S06ASecondConflictingSessionIsToldSo) {
  ASSERT_TRUE(runtime_.open_session(on_gpu("0", 0.25)));
  const auto second = runtime_.open_session(on_gpu("0", 0.5));
  ASSERT_FALSE(second);
  EXPECT_EQ(second.error().message,
            "session 2 asks for other memory options on GPU:0 than session 1, which has set it up; "
            "give both the same, or the GPU to one of them");
  EXPECT_TRUE(runtime_.open_session(on_gpu("0", 0.25))) << "the same again is shared";
  EXPECT_EQ(host_.pools.size(), 1U);
}

TEST_F(Strict, S06ASessionThatIsRefusedLeavesNothingBehind) {
  ASSERT_TRUE(runtime_.open_session(on_gpu("0", 0.25)));
  ASSERT_FALSE(runtime_.open_session(on_gpu("1,0", 0.5)));
  EXPECT_EQ(host_.pools.size(), 1U);
  EXPECT_TRUE(runtime_.open_session(on_gpu("1", 0.75)));
}

TEST_F(Compat, S06TheFirstSessionWinsSilently) {
  ASSERT_TRUE(runtime_.open_session(on_gpu("", 0.25)));
  const auto second = runtime_.open_session(on_gpu("", 0.5));
  ASSERT_TRUE(second);
  EXPECT_EQ((*runtime_.session_memory(*second, "GPU:0"))->info().limit.count(), 6 * kTestGiB);
  EXPECT_NE(notes().find("GPU:0 keeps the memory options of session 1"), std::string::npos);
}

TEST_F(Compat, S06VisibleDeviceListReorders) {
  const auto session = runtime_.open_session(on_gpu("1,0", 0.25));
  EXPECT_EQ(host_.pools[0].ordinal, 1);
  EXPECT_EQ(host_.pools[1].ordinal, 0);
  EXPECT_EQ(runtime_.session_list(*session).size(), 3U);
}

TEST_F(Compat, S06DeviceCountSelects) {
  ConfigProto one;
  one.device_count["GPU"] = 1;
  ASSERT_TRUE(runtime_.open_session(one));
  EXPECT_EQ(host_.pools.size(), 1U);
  ConfigProto none;
  none.device_count["GPU"] = 0;
  EXPECT_TRUE(runtime_.open_session(none)->gpus.empty());
}

TEST_F(Strict, S06SoftPlacementMeansTheCpuForAGpuThatIsNotThere) {
  ConfigProto config = on_gpu("0", 0.25);
  const auto hard = runtime_.open_session(config);
  EXPECT_EQ(runtime_.session_memory(*hard, "GPU:1").error().kind, FaultKind::kInvalidArgument);
  config.allow_soft_placement = true;
  const auto soft = runtime_.open_session(config);
  EXPECT_EQ((*runtime_.session_memory(*soft, "GPU:1"))->name(), "/device:CPU:0");
  EXPECT_EQ(host_.pools.back().kind, Kind::kHost);
}

TEST_F(Strict, S06SoftPlacementNeverHelpsAgainstRunningOutOfMemory) {
  ok(runtime_.set_memory_limit(kGpu0, 1_GiB));
  initialise();
  const auto got = memory("GPU:0")->allocate(2 * kTestGiB, nullptr);
  ASSERT_FALSE(got);
  EXPECT_EQ(got.error().kind, FaultKind::kResourceExhausted);
  EXPECT_EQ(got.error().message, "/device:GPU:0: no room\nreport");
}

TEST_F(Strict, S07ASessionWithoutConfigIsToldWhatItShares) {
  ASSERT_TRUE(runtime_.open_session(on_gpu("0", 0.25)));
  ASSERT_TRUE(runtime_.open_session({}));
  EXPECT_NE(notes().find("session 2 says nothing of memory on GPU:0 and shares what session 1"),
            std::string::npos)
      << notes();
}

TEST_F(Strict, S08DevicesAndTheirLogicalOnes) {
  EXPECT_EQ(runtime_.list_physical_devices("GPU")->size(), 2U);
  EXPECT_EQ(runtime_.list_physical_devices("CPU")->size(), 1U);
  EXPECT_EQ(runtime_.list_physical_devices("")->size(), 3U);
  EXPECT_EQ(runtime_.list_physical_devices("TPU")->size(), 0U);
  ok(runtime_.set_logical_device_configuration(kGpu1, {{1_GiB, {}, {}}, {2_GiB, {}, {}}}));
  const auto logical = initialise();
  ASSERT_EQ(logical.size(), 3U);
  EXPECT_EQ(logical[2].name, "/device:GPU:2");
  EXPECT_EQ(*runtime_.physical_device_of(logical[2]), kGpu1);
  EXPECT_EQ(runtime_.logical_devices_of(kGpu1)->size(), 2U);
  EXPECT_EQ(*runtime_.logical_devices_of(kGpu0), std::vector{logical[0]});
  EXPECT_EQ(runtime_.physical_device_of({"/device:GPU:9", "GPU", 0}).error().kind,
            FaultKind::kValue);
}

TEST_F(Strict, S08DeviceDetails) {
  host_.cards[1].name = "Other GPU";
  const auto details = runtime_.device_details(kGpu1);
  EXPECT_EQ(details->device_name, "Other GPU");
  EXPECT_EQ(details->compute_capability_major, 8);
  EXPECT_EQ(details->total_memory, 24_GiB);
  EXPECT_EQ(runtime_.device_details(kCpu0)->device_name, "");
}

TEST_F(Strict, S08WithoutADriverThereIsTheCpuAndAReason) {
  host_.driver_missing = "libcuda.so.1 was not found";
  EXPECT_EQ(runtime_.list_physical_devices("")->size(), 1U);
  EXPECT_EQ(notes(), "no GPU: libcuda.so.1 was not found\n");
  EXPECT_EQ(initialise().size(), 0U);
}

TEST_F(Strict, S09GrowthMayDifferBetweenDevices) {
  ok(runtime_.set_memory_growth(kGpu0, true));
  ok(runtime_.set_memory_growth(kGpu1, false));
  initialise();
  EXPECT_TRUE(host_.pools[0].growth);
  EXPECT_FALSE(host_.pools[1].growth);
  EXPECT_EQ(*runtime_.memory_growth(kGpu1), false);
  EXPECT_EQ(*runtime_.memory_growth(kCpu0), std::nullopt);
}

TEST_F(Strict, S10AMemoryLimitForEveryCardInALoop) {
  const auto gpus = runtime_.list_physical_devices("GPU");
  for (const PhysicalDevice& gpu : *gpus) {
    ok(runtime_.set_memory_limit(gpu, 4_GiB));
  }
  initialise();
  EXPECT_EQ(host_.pools[0].limit, 4 * kTestGiB);
  EXPECT_EQ(host_.pools[1].limit, 4 * kTestGiB);
  EXPECT_EQ(**runtime_.memory_limit(kGpu1), 4_GiB);
}

TEST_F(Strict, S10ALimitOverTheCardNamesBothAndTheNextStep) {
  const Outcome answer = runtime_.set_memory_limit(kGpu0, 25_GiB);
  ASSERT_FALSE(answer);
  EXPECT_EQ(
      answer.error().message,
      "GPU:0: a limit of 25GiB is more than the 24GiB of the card; use less, or a percentage");
}

TEST_F(Compat, S11AV1ConfigAfterV2HasNoEffectAndIsTold) {
  initialise();
  ASSERT_TRUE(runtime_.open_session(on_gpu("", 0.25)));
  EXPECT_EQ(host_.pools.size(), 2U);
  EXPECT_NE(notes().find("keeps the memory options of list_logical_devices()"), std::string::npos)
      << notes();
}

TEST_F(Strict, S11AV1ConfigAfterV2IsRefusedWhereItDiffers) {
  ok(runtime_.set_memory_limit(kGpu0, 6_GiB));
  initialise();
  EXPECT_TRUE(runtime_.open_session(on_gpu("0", 0.25))) << "a quarter of 24 GiB is the same";
  EXPECT_EQ(runtime_.open_session(on_gpu("0", 0.5)).error().kind, FaultKind::kAlreadyExists);
}

TEST_F(Compat, S11EagerExecutionWithAV1Config) {
  ConfigProto config = on_gpu("1", 0.25);
  ok(runtime_.import_config(config));
  EXPECT_EQ(*runtime_.visible_devices("GPU"), std::vector{kGpu1});
  initialise();
  ASSERT_EQ(host_.pools.size(), 1U);
  EXPECT_EQ(host_.pools[0].ordinal, 1);
  EXPECT_EQ(host_.pools[0].limit, 6 * kTestGiB);
}

TEST_F(Strict, S11EagerExecutionAppliesWhereTheSettingsSayNothing) {
  ok(runtime_.import_config(on_gpu("", 0.25)));
  ok(runtime_.set_memory_limit(kGpu0, 1_GiB));
  initialise();
  EXPECT_EQ(host_.pools[0].limit, 1 * kTestGiB);
  EXPECT_EQ(host_.pools[1].limit, 6 * kTestGiB);
}

TEST_F(Strict, S12AfterFirstUseTheMessageNamesTheCallThatInitialised) {
  ASSERT_TRUE(runtime_.gpu_memory("GPU:0", "get_memory_info()"));
  const Outcome late = runtime_.set_memory_growth(kGpu0, true);
  ASSERT_FALSE(late);
  EXPECT_EQ(late.error().kind, FaultKind::kRuntime);
  EXPECT_EQ(late.error().message,
            "Memory growth of /physical_device:GPU:0 cannot be modified after being initialized, "
            "which get_memory_info() did; configure before it");
}

TEST_F(Strict, S12ASessionFixesOnlyItsOwnCards) {
  ASSERT_TRUE(runtime_.open_session(on_gpu("0", 0.25)));
  EXPECT_NE(runtime_.set_memory_growth(kGpu0, true).error().message.find("session 1"),
            std::string::npos);
  ok(runtime_.set_memory_growth(kGpu1, true));
}

TEST_F(Strict, S12TheModeIsFixedByTheFirstSetting) {
  ok(runtime_.set_memory_growth(kGpu0, true));
  EXPECT_EQ(runtime_.set_mode(Mode::kCompat).error().kind, FaultKind::kRuntime);
  ok(runtime_.set_mode(Mode::kStrict));
}

TEST_F(Strict, S13AHardSplitSharesNothing) {
  ok(runtime_.set_logical_device_configuration(kGpu0, {{12_GiB, {}, {}}, {12_GiB, {}, {}}}));
  initialise();
  ASSERT_TRUE(memory("GPU:1")->allocate(12 * kTestGiB, nullptr));
  EXPECT_FALSE(memory("GPU:1")->allocate(1, nullptr));
  EXPECT_TRUE(memory("GPU:0")->allocate(12 * kTestGiB, nullptr));
}

TEST_F(Strict, S13TheSumIsCheckedInTheCall) {
  const Outcome answer =
      runtime_.set_logical_device_configuration(kGpu0, {{20_GiB, {}, {}}, {8_GiB, {}, {}}});
  ASSERT_FALSE(answer);
  EXPECT_EQ(answer.error().message,
            "GPU:0: its devices were promised more than the 24GiB it has (8GiB where 4GiB are "
            "left); use smaller limits, or reserves to share what is idle");
}

TEST_F(Compat, S13LimitsAreWholeMibAndNeverSummed) {
  ok(runtime_.set_visible_devices({kGpu0}, "GPU"));
  ok(runtime_.set_logical_device_configuration(
      kGpu0, {{Bytes::of(123 * kTestMiB + 5), {}, {}}, {100_GiB, {}, {}}}));
  initialise();
  EXPECT_EQ(host_.pools[0].limit, 123 * kTestMiB);
  EXPECT_EQ(host_.pools[1].limit, 100 * kTestGiB);
  EXPECT_FALSE(host_.pools[0].growth) << "greedy to the limit";
}

TEST_F(Compat, S13NumVirtualDevicesPerGpuDividesEqually) {
  ConfigProto config = on_gpu("0", 0.5);
  config.gpu_options.experimental.num_virtual_devices_per_gpu = 3;
  ASSERT_TRUE(runtime_.open_session(config));
  ASSERT_EQ(host_.pools.size(), 3U);
  EXPECT_EQ(host_.pools[2].limit, 4 * kTestGiB);
}

TEST_F(Compat, S13PrioritiesReachTheDevices) {
  ConfigProto config;
  config.gpu_options.visible_device_list = "0";
  config.gpu_options.experimental.virtual_devices.push_back({{100, 200}, {-1, 0}});
  const auto session = runtime_.open_session(config);
  ASSERT_TRUE(session) << session.error().message;
  EXPECT_EQ(runtime_.session_list(*session)[1].priority, -1);
}

TEST_F(Strict, S13AnElasticSplitLendsWhatIsIdleAndKeepsReserves) {
  ok(runtime_.set_memory_limit(kGpu0, 16_GiB));
  ok(runtime_.set_logical_device_configuration(
      kGpu0, {{12_GiB, 4_GiB, {}}, {{}, 4_GiB, {}}, {{}, 0_MiB, {}}}));
  initialise();
  const auto first = memory("GPU:0");
  const auto second = memory("GPU:1");
  const auto third = memory("GPU:2");
  const auto lent = first->allocate(12 * kTestGiB, nullptr);
  ASSERT_TRUE(lent);
  EXPECT_FALSE(first->allocate(1, nullptr)) << "its own limit";
  const auto refused = third->allocate(1, nullptr);
  ASSERT_FALSE(refused) << "nothing is left beside reserves";
  EXPECT_EQ(refused.error().message,
            "/device:GPU:2: no room; the other logical devices of this card hold or reserve the "
            "rest: free memory there, or give this one a larger reserve\nreport");
  EXPECT_TRUE(second->allocate(4 * kTestGiB, nullptr)) << "its reserve is there";
  ok(first->free(*lent, nullptr));
  EXPECT_EQ(first->info().reserved, 12_GiB) << "idle, but held";
  EXPECT_TRUE(third->allocate(8 * kTestGiB, nullptr)) << "what is idle comes back";
  EXPECT_EQ(first->info().reserved, 4_GiB);
}

TEST_F(Strict, S13LogicalCpus) {
  ok(runtime_.set_logical_device_configuration(kCpu0, {{}, {}}));
  EXPECT_EQ(runtime_.list_logical_devices("CPU", "x")->size(), 2U);
  EXPECT_EQ(memory("CPU:1"), memory("CPU:0"));
  EXPECT_EQ(host_.pools.back().limit, 128 * kTestGiB);
}

TEST_F(Strict, S14ACapFromTheEnvironment) {
  host_.environment["PER_PROCESS_GPU_MEMORY"] = "4096";
  initialise();
  EXPECT_EQ(host_.pools[0].limit, 4 * kTestGiB);
}

TEST_F(Compat, S14ACapFromTheEnvironmentHoldsForLogicalDevicesTogether) {
  host_.environment["PER_PROCESS_GPU_MEMORY"] = "4096";
  host_.environment["TF_FORCE_GPU_ALLOW_GROWTH"] = "true";
  ok(runtime_.set_visible_devices({kGpu0}, "GPU"));
  ok(runtime_.set_logical_device_configuration(kGpu0, {{3_GiB, {}, {}}, {3_GiB, {}, {}}}));
  initialise();
  EXPECT_TRUE(memory("GPU:0")->allocate(3 * kTestGiB, nullptr));
  EXPECT_FALSE(memory("GPU:1")->allocate(2 * kTestGiB, nullptr));
  EXPECT_TRUE(memory("GPU:1")->allocate(1 * kTestGiB, nullptr));
}

TEST_F(Strict, S14GarbageIsAnErrorInEveryCallThatConfigures) {
  host_.environment["PER_PROCESS_GPU_MEMORY"] = "4GB";
  EXPECT_EQ(runtime_.set_memory_growth(kGpu0, true).error().message,
            "PER_PROCESS_GPU_MEMORY='4GB' is not a whole number of MiB above 0; write 4096 for "
            "4GiB, or unset it");
  EXPECT_FALSE(runtime_.list_logical_devices("", "x"));
  EXPECT_FALSE(runtime_.open_session({}));
}

TEST_F(Strict, S14ACapOverTheCardIsRefused) {
  host_.environment["PER_PROCESS_GPU_MEMORY"] = "30000";
  EXPECT_EQ(runtime_.list_logical_devices("", "x").error().kind, FaultKind::kInvalidArgument);
}

TEST_F(Strict, S16GpuIdChoosesTheCardOfThisProcess) {
  host_.environment["GPU_ID"] = "1";
  initialise();
  ASSERT_EQ(host_.pools.size(), 1U);
  EXPECT_EQ(host_.pools[0].ordinal, 1);
}

TEST_F(Strict, S16GpuIdThatIsNoneIsAnError) {
  host_.environment["GPU_ID"] = "2";
  EXPECT_EQ(runtime_.list_logical_devices("", "x").error().kind, FaultKind::kInvalidArgument);
}

TEST_F(Strict, S18FragmentationIsSampledAtGrowthAndFailureAndOnRequest) {
  ok(runtime_.set_memory_limit(kGpu0, 1_GiB));
  initialise();
  const auto gpu = memory("GPU:0");
  const auto block = gpu->allocate(1000, nullptr);  // grows
  ok(gpu->free(*block, nullptr));
  ASSERT_TRUE(gpu->allocate(1000, nullptr));  // does not
  EXPECT_EQ(gpu->history().size(), 1U);
  EXPECT_FALSE(gpu->allocate(2 * kTestGiB, nullptr));
  EXPECT_EQ(gpu->history().size(), 2U);
  gpu->sample();
  ASSERT_EQ(gpu->history().size(), 3U);
  EXPECT_EQ(gpu->history()[0].fragmentation, 0.25);
  EXPECT_LT(gpu->history()[0].time_ms, gpu->history()[2].time_ms);
}

TEST_F(Strict, S18TheHistoryIsBoundedAndKeepsTheNewest) {
  initialise();
  const auto gpu = memory("GPU:0");
  for (std::size_t i = 0; i < Memory::kSamples + 10; ++i) gpu->sample();
  const auto history = gpu->history();
  ASSERT_EQ(history.size(), Memory::kSamples);
  EXPECT_EQ(history.back().time_ms, Memory::kSamples + 10);
  EXPECT_EQ(history.front().time_ms, 11U);
}

TEST_F(Compat, S19TheDriversPoolTakesTheLimitForAThreshold) {
  host_.environment["TF_GPU_ALLOCATOR"] = "cuda_malloc_async";
  initialise();
  EXPECT_EQ(host_.pools[0].kind, Kind::kDriverAsync);
  EXPECT_TRUE(host_.pools[0].limit_is_threshold);
}

TEST_F(Strict, S19TheDriversPoolCaps) {
  host_.environment["TF_GPU_ALLOCATOR"] = "cuda_malloc_async";
  ok(runtime_.set_memory_limit(kGpu0, 4_GiB));
  initialise();
  EXPECT_EQ(host_.pools[0].kind, Kind::kDriverAsync);
  EXPECT_FALSE(host_.pools[0].limit_is_threshold);
  EXPECT_EQ(host_.pools[0].limit, 4 * kTestGiB);
}

TEST_F(Strict, S19PreallocationTakesMemoryOnce) {
  host_.environment["TF_GPU_ALLOCATOR"] = "cuda_malloc_async";
  host_.environment["TF_CUDA_MALLOC_ASYNC_SUPPORTED_PREALLOC"] = "2048";
  initialise();
  EXPECT_EQ(memory("GPU:0")->info().peak.count(), 2048U);
  EXPECT_EQ(memory("GPU:0")->info().current.count(), 0U);
}

// A profile of the command reaches the library through the environment.
TEST_F(Strict, S20ACapAndGrowthFromAProfilesEnvironment) {
  host_.environment["PER_PROCESS_GPU_MEMORY"] = "2048";
  host_.environment["TF_FORCE_GPU_ALLOW_GROWTH"] = "true";
  ok(runtime_.set_memory_growth(kGpu0, false));
  initialise();
  EXPECT_TRUE(host_.pools[0].growth);
  EXPECT_EQ(host_.pools[0].limit, 2 * kTestGiB);
  EXPECT_NE(notes().find("TF_FORCE_GPU_ALLOW_GROWTH overrides the growth set for GPU:0"),
            std::string::npos);
}

// Settling looks like a peak that stops; a leak like one that does not.
TEST_F(Strict, S21ThePeakSinceTheLastResetTellsSettlingFromLeaking) {
  initialise();
  const auto gpu = memory("GPU:0");
  ok(gpu->free(*gpu->allocate(4096, nullptr), nullptr));
  EXPECT_EQ(gpu->info().peak.count(), 4096U);
  gpu->reset_stats();
  ASSERT_TRUE(gpu->allocate(1024, nullptr));
  EXPECT_EQ(gpu->info().peak.count(), 1024U);
}

TEST_F(Strict, S22TheStatusLineBeforeAndAfterInitialisation) {
  ok(runtime_.set_memory_limit(kGpu0, 4_GiB));
  ok(runtime_.set_memory_growth(kGpu1, false));
  EXPECT_EQ(status_line(*runtime_.snapshot()),
            "vram: strict, 2 GPUs: GPU:0 4GiB on demand, GPU:1 up to what is free, all at once");
  EXPECT_TRUE(host_.pools.empty()) << "showing does not initialise";
  initialise();
  EXPECT_EQ(status_line(*runtime_.snapshot()),
            "vram: strict, 2 GPUs: GPU:0 4GiB on demand, GPU:1 22.0GiB all at once");
}

TEST_F(Strict, S22DescribeListsDevicesForAPersonAndAProgram) {
  ok(runtime_.set_visible_devices({kGpu1}, "GPU"));
  ok(runtime_.set_logical_device_configuration(kGpu1, {{6_GiB, 1_GiB, {}}, {6_GiB, 1_GiB, {}}}));
  initialise();
  EXPECT_EQ(describe_text(*runtime_.snapshot()),
            "mode strict, initialised by list_logical_devices()\n"
            "GPU:0  Test GPU  24GiB  hidden\n"
            "GPU:1  Test GPU  24GiB\n"
            "  /device:GPU:0  limit 6GiB  reserve 1GiB  on demand  segments pool\n"
            "  /device:GPU:1  limit 6GiB  reserve 1GiB  on demand  segments pool\n");
  const std::string json = describe_json(*runtime_.snapshot());
  EXPECT_NE(json.find(R"("name": "/device:GPU:1")"), std::string::npos) << json;
  EXPECT_NE(json.find(R"("reserve": 1073741824)"), std::string::npos) << json;
  EXPECT_NE(json.find(R"("visible": false)"), std::string::npos) << json;
}

TEST_F(Strict, S22MemoryInfoForAPersonAndAProgram) {
  EXPECT_EQ(memory_text(*runtime_.snapshot()), "");
  ok(runtime_.set_visible_devices({kGpu0}, "GPU"));
  ok(runtime_.set_memory_limit(kGpu0, 4_GiB));
  initialise();
  ASSERT_TRUE(memory("GPU:0")->allocate(kTestGiB, nullptr));
  EXPECT_EQ(memory_text(*runtime_.snapshot()),
            "/device:GPU:0  1GiB used, peak 1GiB, 1GiB held of 4GiB, fragmentation 25%\n");
  EXPECT_NE(memory_json(*runtime_.snapshot()).find(R"("current": 1073741824)"), std::string::npos);
}

TEST_F(Strict, ThreadsMayInitialiseAllocateAndLookAtOnce) {
  ok(runtime_.set_logical_device_configuration(kGpu0, {{{}, 1_GiB, {}}, {{}, 1_GiB, {}}}));
  std::vector<std::thread> threads;
  std::atomic<int> wrong{0};
  for (int i = 0; i < 4; ++i) {
    threads.emplace_back([&, i] {
      const auto gpu = runtime_.memory(i % 2 == 0 ? "GPU:0" : "GPU:1", "memory()");
      for (int round = 0; round < 200; ++round) {
        const auto block = (*gpu)->allocate(kTestMiB, nullptr);
        if (!block || !(*gpu)->free(*block, nullptr)) ++wrong;
        if (round % 50 == 0 && (!runtime_.open_session({}) || !runtime_.snapshot())) ++wrong;
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(wrong, 0);
  EXPECT_EQ(host_.pools.size(), 3U);
}

TEST_F(Strict, ABlockIsFreedOnceAndOnItsOwnDevice) {
  initialise();
  const auto block = memory("GPU:0")->allocate(1000, nullptr);
  ok(memory("GPU:0")->free(*block, nullptr));
  EXPECT_EQ(memory("GPU:0")->free(*block, nullptr).error().kind, FaultKind::kValue);
}

TEST_F(Strict, VisibleDevicesKeepTheOrderOfTheCall) {
  ok(runtime_.set_visible_devices({kGpu1, kGpu0}, "GPU"));
  initialise();
  EXPECT_EQ(host_.pools[0].ordinal, 1);
}

TEST_F(Compat, VisibleDevicesKeepTheOrderOfTheDriver) {
  ok(runtime_.set_visible_devices({kGpu1, kGpu0}, "GPU"));
  initialise();
  EXPECT_EQ(host_.pools[0].ordinal, 0);
}

TEST_F(Compat, ForcedUnifiedMemoryIsTheWholeCardOrMore) {
  host_.environment["TF_FORCE_UNIFIED_MEMORY"] = "1";
  ASSERT_TRUE(runtime_.open_session(on_gpu("0", 0.5)));
  EXPECT_TRUE(host_.pools[0].managed);
  EXPECT_EQ(host_.pools[0].limit, 24 * kTestGiB);
}

TEST_F(Compat, RegionCollectionFollowsTheEnvironment) {
  host_.environment["TF_ENABLE_GPU_GARBAGE_COLLECTION"] = "false";
  initialise();
  EXPECT_FALSE(host_.pools[0].garbage_collection);
}

}  // namespace
}  // namespace vram::config
