// TensorFlow's validation table, row by row: what each mode answers, and in which call.

#include <gtest/gtest.h>

#include <functional>
#include <limits>
#include <string>

#include "config/host_for_test.h"
#include "config/runtime.h"

namespace vram::config {
namespace {

using namespace vram::literals;
using compat::v1::ConfigProto;

const char* class_of(FaultKind kind) {
  switch (kind) {
    case FaultKind::kValue:
      return "ValueError";
    case FaultKind::kRuntime:
      return "RuntimeError";
    case FaultKind::kInvalidArgument:
      return "InvalidArgument";
    case FaultKind::kAlreadyExists:
      return "AlreadyExists";
    case FaultKind::kInternal:
      return "InternalError";
    case FaultKind::kUnknown:
      return "UnknownError";
    case FaultKind::kResourceExhausted:
      return "ResourceExhausted";
  }
  return "";
}

template <typename T>
std::string answer(const Result<T>& result) {
  return result ? "ok" : class_of(result.error().kind);
}

const PhysicalDevice kGpu0 = physical_device(0), kGpu1 = physical_device(1),
                     kCpu0 = physical_device(kCpu);

LogicalDeviceConfiguration part(Size limit) { return {limit, {}, {}}; }
LogicalDeviceConfiguration part(Size limit, int priority) { return {limit, {}, priority}; }

ConfigProto split_config(std::vector<std::vector<float>> limits) {
  ConfigProto config;
  for (const auto& of_gpu : limits) {
    config.gpu_options.experimental.virtual_devices.push_back({of_gpu, {}});
  }
  return config;
}

// One answer for each call, joined: "ok ValueError".
using Calls = std::function<std::string(Runtime&, TestHost&)>;
std::string then(std::initializer_list<std::string> answers) {
  std::string joined;
  for (const std::string& one : answers) joined += (joined.empty() ? "" : " ") + one;
  return joined;
}
std::string initialise(Runtime& runtime) {
  return answer(runtime.list_logical_devices("", "list_logical_devices()"));
}
Calls session(ConfigProto config) {
  return [config](Runtime& runtime, TestHost&) { return answer(runtime.open_session(config)); };
}

struct Row {
  const char* name;
  Calls calls;
  const char* compat;
  const char* strict;
};

const Row kRows[] = {
    {"SetterAfterInitChangedValue",
     [](Runtime& r, TestHost&) {
       return then({initialise(r), answer(r.set_memory_growth(kGpu0, true)),
                    answer(r.set_visible_devices({kGpu0}, "GPU")),
                    answer(r.set_logical_device_configuration(kGpu0, {part(1_GiB)}))});
     },
     "ok RuntimeError RuntimeError RuntimeError", "ok RuntimeError RuntimeError RuntimeError"},
    {"SetterAfterInitSameValue",
     [](Runtime& r, TestHost&) {
       return then({answer(r.set_memory_growth(kGpu0, true)),
                    answer(r.set_memory_growth(kGpu1, true)), initialise(r),
                    answer(r.set_memory_growth(kGpu0, true)),
                    answer(r.set_visible_devices({kGpu0, kGpu1}, "GPU"))});
     },
     "ok ok ok ok ok", "ok ok ok ok ok"},
    {"DeviceThatIsNotListed",
     [](Runtime& r, TestHost&) {
       const PhysicalDevice unknown{"/physical_device:GPU:7", "GPU"};
       return then({answer(r.set_memory_growth(unknown, true)),
                    answer(r.set_visible_devices({unknown}, "")),
                    answer(r.set_logical_device_configuration(unknown, {part(1_GiB)})),
                    answer(r.memory_growth(unknown)), answer(r.device_details(unknown))});
     },
     "ValueError ValueError ValueError ValueError ValueError",
     "ValueError ValueError ValueError ValueError ValueError"},
    {"DeviceOfTheWrongType",
     [](Runtime& r, TestHost&) {
       return then({answer(r.set_visible_devices({kCpu0}, "GPU")),
                    answer(r.set_visible_devices({kGpu0}, "CPU"))});
     },
     "ValueError ValueError", "ValueError ValueError"},
    {"GrowthAfterVirtualConfiguration",
     [](Runtime& r, TestHost&) {
       return then({answer(r.set_logical_device_configuration(kGpu0, {part(1_GiB)})),
                    answer(r.set_memory_growth(kGpu0, true))});
     },
     "ok ValueError", "ok ok"},
    {"VirtualConfigurationAfterGrowth",
     [](Runtime& r, TestHost& host) {
       const std::string set =
           then({answer(r.set_memory_growth(kGpu0, true)), answer(r.set_memory_growth(kGpu1, true)),
                 answer(r.set_logical_device_configuration(kGpu0, {part(1_GiB)})), initialise(r)});
       return set + (host.pools[0].growth ? " grows" : " greedy") +
              (host.pools[1].growth ? " grows" : " greedy");
     },
     "ok ok ok ok greedy greedy", "ok ok ok ok grows grows"},
    {"CpuConfigurationAfterGrowth",
     [](Runtime& r, TestHost& host) {
       const std::string set =
           then({answer(r.set_memory_growth(kGpu0, true)), answer(r.set_memory_growth(kGpu1, true)),
                 answer(r.set_logical_device_configuration(kCpu0, {{}, {}})), initialise(r)});
       return set + (host.pools[0].growth ? " grows" : " greedy");
     },
     "ok ok ok ok greedy", "ok ok ok ok grows"},
    {"GrowthOnTheCpu",
     [](Runtime& r, TestHost&) { return answer(r.set_memory_growth(kCpu0, true)); }, "ValueError",
     "ValueError"},
    {"GrowthThatDiffersAmongVisibleGpus",
     [](Runtime& r, TestHost&) {
       return then({answer(r.set_memory_growth(kGpu0, true)),
                    answer(r.set_memory_growth(kGpu1, false)), initialise(r)});
     },
     "ok ok ValueError", "ok ok ok"},
    {"GrowthOnOneOfTwoVisibleGpus",
     [](Runtime& r, TestHost&) {
       return then({answer(r.set_memory_growth(kGpu0, true)), initialise(r)});
     },
     "ok ValueError", "ok ok"},
    {"GrowthOnTheOnlyVisibleGpu",
     [](Runtime& r, TestHost&) {
       return then({answer(r.set_memory_growth(kGpu0, true)),
                    answer(r.set_visible_devices({kGpu0}, "GPU")), initialise(r)});
     },
     "ok ok ok", "ok ok ok"},
    {"GpuPartWithoutMemoryLimit",
     [](Runtime& r, TestHost&) {
       return answer(r.set_logical_device_configuration(kGpu0, {LogicalDeviceConfiguration{}}));
     },
     "ValueError", "ValueError"},
    {"CpuPartWithMemoryLimit",
     [](Runtime& r, TestHost&) {
       return answer(r.set_logical_device_configuration(kCpu0, {part(1_GiB)}));
     },
     "ValueError", "ValueError"},
    {"PriorityOnSomePartsOnly",
     [](Runtime& r, TestHost&) {
       return then(
           {answer(r.set_logical_device_configuration(kGpu0, {part(1_GiB, -1), part(1_GiB)})),
            initialise(r)});
     },
     "ok ValueError", "ValueError ok"},
    {"PriorityOutOfRange",
     [](Runtime& r, TestHost&) {
       return then({answer(r.set_visible_devices({kGpu0}, "GPU")),
                    answer(r.set_logical_device_configuration(kGpu0, {part(1_GiB, -9)})),
                    initialise(r)});
     },
     "ok ok InvalidArgument", "ok InvalidArgument ok"},
    {"EagerConfigWithAVisibleIndexThatIsNone",
     [](Runtime& r, TestHost&) {
       ConfigProto config;
       config.gpu_options.visible_device_list = "2";
       return answer(r.import_config(config));
     },
     "ValueError", "InvalidArgument"},
    {"EagerConfigOnAHostWithoutGpu",
     [](Runtime& r, TestHost& host) {
       host.cards.clear();
       ConfigProto config;
       config.gpu_options.visible_device_list = "2";
       return answer(r.import_config(config));
     },
     "ok", "InvalidArgument"},
    {"VisibleDeviceListUnparsable",
     [](Runtime& r, TestHost&) {
       ConfigProto config;
       config.gpu_options.visible_device_list = "0,x";
       return answer(r.open_session(config));
     },
     "InvalidArgument", "InvalidArgument"},
    {"VisibleDeviceListOutOfRange",
     [](Runtime& r, TestHost&) {
       ConfigProto config;
       config.gpu_options.visible_device_list = "0,2";
       return answer(r.open_session(config));
     },
     "InvalidArgument", "InvalidArgument"},
    {"VisibleDeviceListTwice",
     [](Runtime& r, TestHost&) {
       ConfigProto config;
       config.gpu_options.visible_device_list = "1,1";
       return answer(r.open_session(config));
     },
     "InvalidArgument", "InvalidArgument"},
    {"VirtualDevicesWithFraction",
     [](Runtime& r, TestHost&) {
       ConfigProto config = split_config({{1024}, {1024}});
       config.gpu_options.per_process_gpu_memory_fraction = 0.5;
       return answer(r.open_session(config));
     },
     "InvalidArgument", "InvalidArgument"},
    {"MoreVirtualEntriesThanGpus", session(split_config({{1024}, {1024}, {1024}})), "UnknownError",
     "UnknownError"},
    {"FewerVirtualEntriesThanGpus", session(split_config({{1024}})), "UnknownError",
     "UnknownError"},
    {"DeviceCountTooSmallForVirtualEntries",
     [](Runtime& r, TestHost&) {
       ConfigProto config = split_config({{1024}, {1024}});
       config.device_count["GPU"] = 1;
       return answer(r.open_session(config));
     },
     "UnknownError", "UnknownError"},
    {"VisibleListOfAnotherLengthThanVirtualEntries",
     [](Runtime& r, TestHost&) {
       ConfigProto config = split_config({{1024}});
       config.gpu_options.visible_device_list = "0,1";
       return answer(r.open_session(config));
     },
     "InvalidArgument", "InvalidArgument"},
    {"UnknownAllocatorType",
     [](Runtime& r, TestHost&) {
       ConfigProto config;
       config.gpu_options.allocator_type = "jemalloc";
       return answer(r.open_session(config));
     },
     "InternalError", "InternalError"},
    {"AllocatorTypeBfc",
     [](Runtime& r, TestHost&) {
       ConfigProto config;
       config.gpu_options.allocator_type = "BFC";
       return answer(r.open_session(config));
     },
     "ok", "ok"},
    {"SumOfLimitsOverTheCard",
     [](Runtime& r, TestHost&) {
       return then({answer(r.set_logical_device_configuration(kGpu0, {part(20_GiB), part(20_GiB)})),
                    initialise(r)});
     },
     "ok ok", "ValueError ok"},
    {"SumOfLimitsOverTheCardInASession", session(split_config({{20480, 20480}, {1024}})), "ok",
     "InvalidArgument"},
    {"LimitOfZero",
     [](Runtime& r, TestHost&) {
       return answer(r.set_logical_device_configuration(kGpu0, {part(0_MiB)}));
     },
     "ok", "ValueError"},
    {"NegativeLimitInASession", session(split_config({{-5}, {1024}})), "ok", "InvalidArgument"},
    {"FractionOverOne",
     [](Runtime& r, TestHost& host) {
       ConfigProto config;
       config.gpu_options.per_process_gpu_memory_fraction = 1.5;
       const std::string opened = answer(r.open_session(config));
       return opened + (host.pools.empty() || !host.pools[0].managed ? "" : " managed");
     },
     "ok managed", "InvalidArgument"},
    {"FractionNegative",
     [](Runtime& r, TestHost&) {
       ConfigProto config;
       config.gpu_options.per_process_gpu_memory_fraction = -0.1;
       return answer(r.open_session(config));
     },
     "ok", "InvalidArgument"},
    {"UnifiedMemoryBeforePascal",
     [](Runtime& r, TestHost& host) {
       host.cards[0].major = 5;
       ConfigProto config;
       config.gpu_options.experimental.use_unified_memory = true;
       return answer(r.open_session(config));
     },
     "InternalError", "InternalError"},
    {"ASecondSessionWithAnotherFraction",
     [](Runtime& r, TestHost& host) {
       ConfigProto first;
       first.gpu_options.per_process_gpu_memory_fraction = 0.25;
       ConfigProto second;
       second.gpu_options.per_process_gpu_memory_fraction = 0.5;
       return then({answer(r.open_session(first)), answer(r.open_session(second)),
                    std::to_string(host.pools.size())});
     },
     "ok ok 2", "ok AlreadyExists 2"},
    {"ASecondSessionWithAnotherVisibleDeviceList",
     [](Runtime& r, TestHost&) {
       ConfigProto first;
       first.gpu_options.visible_device_list = "0";
       ConfigProto second;
       second.gpu_options.visible_device_list = "1";
       return then({answer(r.open_session(first)), answer(r.open_session(second))});
     },
     "ok AlreadyExists", "ok ok"},
    {"MemoryInfoOfTheCpu",
     [](Runtime& r, TestHost&) {
       return then({answer(r.gpu_memory("CPU:0", "x")), answer(r.gpu_memory("banana", "x")),
                    answer(r.gpu_memory("GPU", "x")), answer(r.gpu_memory("GPU:0", "x"))});
     },
     "ValueError ValueError ValueError ok", "ValueError ValueError ValueError ok"},
    {"SetMemoryLimitWhichTensorFlowHasNot",
     [](Runtime& r, TestHost&) { return answer(r.set_memory_limit(kGpu0, 4_GiB)); }, "RuntimeError",
     "ok"},
    {"ForcedGrowthTrueWithACapital",
     [](Runtime& r, TestHost& host) {
       host.environment["TF_FORCE_GPU_ALLOW_GROWTH"] = "True";
       const std::string first = initialise(r);
       return first + (host.pools.empty() ? "" : host.pools[0].growth ? " grows" : " greedy");
     },
     "ok greedy", "InvalidArgument"},
};

std::string name_of(const ::testing::TestParamInfo<Row>& row) { return row.param.name; }

class Validation : public ::testing::TestWithParam<Row> {};

std::string run(const Row& row, Mode mode) {
  TestHost host;
  Runtime runtime(host.host());
  EXPECT_TRUE(runtime.set_mode(mode));
  return row.calls(runtime, host);
}

TEST_P(Validation, CompatAnswersAsTensorFlow) {
  EXPECT_EQ(run(GetParam(), Mode::kCompat), GetParam().compat);
}
TEST_P(Validation, StrictAnswersInTheCallThatIsWrong) {
  EXPECT_EQ(run(GetParam(), Mode::kStrict), GetParam().strict);
}

INSTANTIATE_TEST_SUITE_P(Table, Validation, ::testing::ValuesIn(kRows), name_of);

// Conflicts and ranges that only the strict mode knows.
const Row kStrictRows[] = {
    {"LimitOverTheCard",
     [](Runtime& r, TestHost&) { return answer(r.set_memory_limit(kGpu0, 25_GiB)); }, "",
     "ValueError"},
    {"LimitOfNothing",
     [](Runtime& r, TestHost&) { return answer(r.set_memory_limit(kGpu0, 0_MiB)); }, "",
     "ValueError"},
    {"LimitOfTheCpu",
     [](Runtime& r, TestHost&) { return answer(r.set_memory_limit(kCpu0, 1_GiB)); }, "",
     "ValueError"},
    {"LimitBelowWhatWasPromised",
     [](Runtime& r, TestHost&) {
       return then({answer(r.set_logical_device_configuration(kGpu0, {part(4_GiB), part(4_GiB)})),
                    answer(r.set_memory_limit(kGpu0, 7_GiB)),
                    answer(r.set_memory_limit(kGpu0, 8_GiB))});
     },
     "", "ok ValueError ok"},
    {"PromisesAboveTheLimit",
     [](Runtime& r, TestHost&) {
       return then({answer(r.set_memory_limit(kGpu0, 7_GiB)),
                    answer(r.set_logical_device_configuration(kGpu0, {part(4_GiB), part(4_GiB)}))});
     },
     "", "ok ValueError"},
    {"ReserveAboveItsLimit",
     [](Runtime& r, TestHost&) {
       return answer(r.set_logical_device_configuration(kGpu0, {{1_GiB, 2_GiB, {}}}));
     },
     "", "ValueError"},
    {"ReservesOverTheCard",
     [](Runtime& r, TestHost&) {
       return answer(
           r.set_logical_device_configuration(kGpu0, {{{}, 60_percent, {}}, {{}, 60_percent, {}}}));
     },
     "", "ValueError"},
    {"ReserveOnSomePartsOnly",
     [](Runtime& r, TestHost&) {
       return answer(r.set_logical_device_configuration(kGpu0, {{4_GiB, 1_GiB, {}}, part(4_GiB)}));
     },
     "", "ValueError"},
    {"ReservesThenGreedy",
     [](Runtime& r, TestHost&) {
       return then({answer(r.set_logical_device_configuration(kGpu0, {{4_GiB, 1_GiB, {}}})),
                    answer(r.set_memory_growth(kGpu0, false))});
     },
     "", "ok ValueError"},
    {"GreedyThenReserves",
     [](Runtime& r, TestHost&) {
       return then({answer(r.set_memory_growth(kGpu0, false)),
                    answer(r.set_logical_device_configuration(kGpu0, {{4_GiB, 1_GiB, {}}}))});
     },
     "", "ok ValueError"},
    {"VisibleTwice",
     [](Runtime& r, TestHost&) {
       return answer(r.set_visible_devices({kGpu0, kGpu0}, "GPU"));
     },
     "", "ValueError"},
    {"ASessionAgainstTheConfiguration",
     [](Runtime& r, TestHost&) {
       ConfigProto config;
       config.gpu_options.per_process_gpu_memory_fraction = 0.5;
       return then({answer(r.set_memory_limit(kGpu0, 4_GiB)), answer(r.open_session(config))});
     },
     "", "ok AlreadyExists"},
    {"MoreThanPerProcessGpuMemory",
     [](Runtime& r, TestHost& host) {
       host.environment["PER_PROCESS_GPU_MEMORY"] = "2048";
       return then({answer(r.set_memory_limit(kGpu0, 4_GiB)), initialise(r)});
     },
     "", "ok InvalidArgument"},
    {"FractionAndSystemMemory",
     [](Runtime& r, TestHost&) {
       ConfigProto config;
       config.gpu_options.per_process_gpu_memory_fraction = 0.5;
       config.gpu_options.experimental.gpu_system_memory_size_in_mb = 100;
       return answer(r.open_session(config));
     },
     "", "InvalidArgument"},
    {"FractionThatIsNoNumber",
     [](Runtime& r, TestHost&) {
       ConfigProto config;
       config.gpu_options.per_process_gpu_memory_fraction =
           std::numeric_limits<double>::quiet_NaN();
       return answer(r.open_session(config));
     },
     "", "InvalidArgument"},
    {"DeviceCountOfWhatIsNot",
     [](Runtime& r, TestHost&) {
       ConfigProto config;
       config.device_count["TPU"] = 1;
       ConfigProto many;
       many.device_count["GPU"] = 3;
       return then({answer(r.open_session(config)), answer(r.open_session(many))});
     },
     "", "InvalidArgument InvalidArgument"},
    {"SystemMemoryAboveWhatIsFree",
     [](Runtime& r, TestHost& host) {
       host.environment["TF_DEVICE_MIN_SYS_MEMORY_IN_MB"] = "99999";
       return initialise(r);
     },
     "", "InvalidArgument"},
};

class StrictValidation : public ::testing::TestWithParam<Row> {};
TEST_P(StrictValidation, IsCheckedInTheCall) {
  EXPECT_EQ(run(GetParam(), Mode::kStrict), GetParam().strict);
}
INSTANTIATE_TEST_SUITE_P(Table, StrictValidation, ::testing::ValuesIn(kStrictRows), name_of);

}  // namespace
}  // namespace vram::config
