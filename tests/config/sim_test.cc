// The public functions over the simulated GPU, one process for each test: a process has one
// configuration.

#include <gtest/gtest.h>

#include <functional>
#include <string>

#include "../sim/sim_test.h"
#include "vram/compat/v1.h"
#include "vram/config.h"

namespace vram::config {
namespace {

using namespace vram::literals;
using sim_test::in_child;
using sim_test::kContextBytes;

TEST(Library, S08TheSimulatedCardsAreListed) {
  in_child([] {
    ASSERT_EQ(list_physical_devices("GPU").size(), 2U);
    const DeviceDetails details = get_device_details(list_physical_devices("GPU")[1]);
    EXPECT_EQ(details.total_memory, 24_GiB);
    EXPECT_EQ(details.uuid.substr(0, 4), "GPU-");
    EXPECT_EQ(describe().substr(0, 30), "mode strict, not initialised\nG");
  });
}

TEST(Library, S10ALimitHoldsOnTheCard) {
  in_child([] {
    set_memory_limit(list_physical_devices("GPU")[0], 1_GiB);
    const DeviceMemory memory = config::memory("GPU:0");
    void* block = memory.allocate(900_MiB);
    EXPECT_THROW(static_cast<void>(memory.allocate(200_MiB)), ResourceExhausted);
    EXPECT_EQ(get_memory_info("GPU:0").current, 900_MiB);
    ASSERT_EQ(nvmlInit_v2(), NVML_SUCCESS);
    EXPECT_LE(sim_test::used(), kContextBytes + (1_GiB).count());
    EXPECT_GE(sim_test::used(), kContextBytes + (900_MiB).count());
    memory.deallocate(block);
    EXPECT_EQ(get_memory_info("GPU:0").current, 0_B);
  });
}

TEST(Library, S03IdleMemoryGoesBackToTheCard) {
  in_child([] {
    const DeviceMemory memory = config::memory("GPU:0");
    memory.deallocate(memory.allocate(2_GiB));
    static_cast<void>(memory.trim());
    EXPECT_EQ(memory.info().reserved, 0_B);
    ASSERT_EQ(nvmlInit_v2(), NVML_SUCCESS);
    EXPECT_LT(sim_test::used(), kContextBytes + (64_MiB).count());
  });
}

TEST(Library, S01CompatIsGreedyAtTheFirstAllocation) {
  in_child([] {
    set_mode(Mode::kCompat);
    const DeviceMemory memory = config::memory("GPU:0");
    static_cast<void>(memory.allocate(1_MiB));
    EXPECT_GT(memory.info().reserved, 20_GiB);
  });
}

TEST(Library, S12LateSettingsNameTheCall) {
  in_child([] {
    static_cast<void>(list_logical_devices());
    try {
      set_memory_growth(list_physical_devices("GPU")[0], true);
      FAIL() << "it came too late";
    } catch (const RuntimeError& error) {
      EXPECT_NE(std::string(error.what()).find("list_logical_devices()"), std::string::npos);
    }
  });
}

TEST(Library, S06SessionsHaveTheirOwnLimits) {
  in_child([] {
    compat::v1::ConfigProto config;
    config.gpu_options.visible_device_list = "1";
    config.gpu_options.per_process_gpu_memory_fraction = 0.25;
    const compat::v1::Session small(config);
    config.gpu_options.visible_device_list = "0";
    config.gpu_options.per_process_gpu_memory_fraction = 0.5;
    const compat::v1::Session large(config);
    EXPECT_EQ(small.memory().info().limit, 6_GiB);
    EXPECT_EQ(large.memory().info().limit, 12_GiB);
    config.gpu_options.per_process_gpu_memory_fraction = 0.75;
    EXPECT_THROW(compat::v1::Session{config}, AlreadyExists);
  });
}

TEST(Library, S13AnElasticSplitOnTheCard) {
  in_child([] {
    const PhysicalDevice gpu = list_physical_devices("GPU")[0];
    set_memory_limit(gpu, 8_GiB);
    set_logical_device_configuration(gpu, {{{}, 1_GiB, {}}, {{}, 1_GiB, {}}});
    const DeviceMemory first = config::memory("GPU:0");
    const DeviceMemory second = config::memory("GPU:1");
    void* lent = first.allocate(6_GiB);
    EXPECT_THROW(static_cast<void>(first.allocate(2_GiB)), ResourceExhausted);
    void* reserve = second.allocate(1000_MiB);
    first.deallocate(lent);
    void* back = second.allocate(5_GiB);
    EXPECT_NE(back, nullptr);
    second.deallocate(back);
    second.deallocate(reserve);
  });
}

TEST(Library, S14ACapThatIsGarbageStopsTheProgram) {
  in_child([] {
    ::setenv("PER_PROCESS_GPU_MEMORY", "4GiB", 1);
    EXPECT_THROW(static_cast<void>(memory("GPU:0")), InvalidArgument);
  });
}

TEST(Library, S18TheHistoryHasASampleOfEachGrowth) {
  in_child([] {
    const LogicalDevice gpu = list_logical_devices("GPU")[0];
    void* block = allocate(gpu, 100_MiB);
    EXPECT_GE(fragmentation_history(gpu).size(), 1U);
    deallocate(gpu, block);
  });
}

TEST(Library, S22MemoryInfoNamesWhatIsHeld) {
  in_child([] {
    set_memory_limit(list_physical_devices("GPU")[0], 4_GiB);
    static_cast<void>(memory("GPU:0").allocate(1_GiB));
    EXPECT_EQ(memory_info().substr(0, 25), "/device:GPU:0  1GiB used,") << memory_info();
    EXPECT_EQ(memory_info_json().substr(0, 15), "{\n  \"schema\": 1") << memory_info_json();
    EXPECT_EQ(status_line().substr(0, 43), "vram: strict, 2 GPUs: GPU:0 4GiB on demand,");
  });
}

}  // namespace
}  // namespace vram::config
