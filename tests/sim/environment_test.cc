// What the environment decides: visible cards, the machine, faults and costs.
#include <csignal>
#include <ctime>
#include <string>

#include "sim_test.h"

extern "C" uint64_t vram_sim_call_count(const char* name);

namespace vram::sim_test {
namespace {

// Each in a process of its own, for the environment is read once.
class Environment : public ::testing::Test {
 protected:
  static int in_child(const std::function<int()>& body) { return exit_status(start_child(body)); }
  static int count() {
    int found = -1;
    return cuInit(0) == CUDA_SUCCESS && cuDeviceGetCount(&found) == CUDA_SUCCESS ? found : -1;
  }
  static int bus_of(CUdevice device) {
    int bus = -1;
    EXPECT_EQ(cuDeviceGetAttribute(&bus, CU_DEVICE_ATTRIBUTE_PCI_BUS_ID, device), CUDA_SUCCESS);
    return bus;
  }
};

TEST_F(Environment, VisibleDevicesAreReordered) {
  EXPECT_EQ(in_child([] {
              ::setenv("CUDA_VISIBLE_DEVICES", "1,0", 1);
              return count() == 2 && bus_of(0) == 2 && bus_of(1) == 1 ? 0 : 1;
            }),
            0);
}

TEST_F(Environment, AnInvalidEntryEndsTheList) {
  EXPECT_EQ(in_child([] {
              ::setenv("CUDA_VISIBLE_DEVICES", "1,7,0", 1);
              return count() == 1 && bus_of(0) == 2 ? 0 : 1;
            }),
            0);
}

TEST_F(Environment, NoVisibleDeviceIsNoDevice) {
  EXPECT_EQ(in_child([] {
              ::setenv("CUDA_VISIBLE_DEVICES", "", 1);
              return cuInit(0) == CUDA_ERROR_NO_DEVICE ? 0 : 1;
            }),
            0);
}

TEST_F(Environment, AUuidPrefixNamesADevice) {
  EXPECT_EQ(in_child([] {
              char uuid[96];
              if (nvmlInit_v2() != NVML_SUCCESS) return 1;
              if (nvmlDeviceGetUUID(card(1), uuid, sizeof(uuid)) != NVML_SUCCESS) return 2;
              ::setenv("CUDA_VISIBLE_DEVICES", std::string(uuid, 12).c_str(), 1);
              return count() == 1 && bus_of(0) == 2 ? 0 : 3;
            }),
            0);
}

TEST_F(Environment, WithoutASpecificationThereIsNoDevice) {
  EXPECT_EQ(in_child([] {
              ::unsetenv("VRAM_SIM");
              return cuInit(0) == CUDA_ERROR_NO_DEVICE ? 0 : 1;
            }),
            0);
}

TEST_F(Environment, AMalformedSpecificationFailsInit) {
  EXPECT_EQ(in_child([] {
              ::setenv("VRAM_SIM", "2x24", 1);
              return cuInit(0) == CUDA_ERROR_INVALID_DEVICE ? 0 : 1;
            }),
            0);
}

TEST_F(Environment, AMachineInUseHasOneSetOfCards) {
  int ready[2];
  ASSERT_EQ(::pipe(ready), 0);
  const pid_t user = start_child([&] {
    const char answer = count() == 2 ? 'y' : 'n';
    if (::write(ready[1], &answer, 1) != 1) return 1;
    ::pause();
    return 0;
  });
  char answer = 0;
  ASSERT_EQ(::read(ready[0], &answer, 1), 1);
  EXPECT_EQ(answer, 'y');
  EXPECT_EQ(in_child([] {
              ::setenv("VRAM_SIM", "1x80GiB", 1);
              return cuInit(0) == CUDA_ERROR_SYSTEM_DRIVER_MISMATCH ? 0 : 1;
            }),
            0);
  ::kill(user, SIGKILL);
  exit_status(user);
  EXPECT_EQ(in_child([] {
              ::setenv("VRAM_SIM", "1x80GiB", 1);
              return count() == 1 ? 0 : 1;
            }),
            0)
      << "nobody uses it any more";
}

TEST_F(Environment, AFaultFailsTheChosenCall) {
  EXPECT_EQ(in_child([] {
              ::setenv("VRAM_SIM_FAULTS", "cuMemAlloc_v2:2=2,cuMemFree_v2:every=2=999", 1);
              if (use_primary() != CUDA_SUCCESS) return 1;
              CUdeviceptr block[3] = {};
              if (cuMemAlloc(&block[0], 1) != CUDA_SUCCESS) return 2;
              if (cuMemAlloc(&block[1], 1) != CUDA_ERROR_OUT_OF_MEMORY) return 3;
              if (cuMemAlloc(&block[2], 1) != CUDA_SUCCESS) return 4;
              if (cuMemFree(block[0]) != CUDA_SUCCESS) return 5;
              if (cuMemFree(block[2]) != CUDA_ERROR_UNKNOWN) return 6;
              if (cuMemFree(block[2]) != CUDA_SUCCESS) return 7;
              return vram_sim_call_count("cuMemAlloc_v2") == 3 ? 0 : 8;
            }),
            0);
}

TEST_F(Environment, AMalformedFaultFailsInit) {
  EXPECT_EQ(in_child([] {
              ::setenv("VRAM_SIM_FAULTS", "cuMemAlloc_v2=2", 1);
              return cuInit(0) == CUDA_ERROR_INVALID_VALUE ? 0 : 1;
            }),
            0);
}

TEST_F(Environment, CostsMakeCallsTakeTheirTime) {
  EXPECT_EQ(in_child([] {
              ::setenv("VRAM_SIM_COSTS", "h200", 1);
              if (use_primary() != CUDA_SUCCESS) return 1;
              timespec before = {};
              timespec after = {};
              ::clock_gettime(CLOCK_MONOTONIC, &before);
              for (int i = 0; i < 1000; ++i) (void)free_bytes();
              ::clock_gettime(CLOCK_MONOTONIC, &after);
              const double seconds = static_cast<double>(after.tv_sec - before.tv_sec) +
                                     static_cast<double>(after.tv_nsec - before.tv_nsec) * 1e-9;
              return seconds > 0.004 ? 0 : 2;
            }),
            0);
}

TEST_F(Environment, ACostsFileMayChargeByTheByte) {
  const std::string file = ::testing::TempDir() + "costs-" + std::to_string(::getpid());
  std::FILE* const out = std::fopen(file.c_str(), "w");
  ASSERT_NE(out, nullptr);
  std::fputs("# 0.1 ns a byte\ncuMemFree_v2 0 100\n", out);
  std::fclose(out);
  EXPECT_EQ(in_child([&] {
              ::setenv("VRAM_SIM_COSTS", file.c_str(), 1);
              CUdeviceptr block = 0;
              if (use_primary() != CUDA_SUCCESS || cuMemAlloc(&block, kGiB) != CUDA_SUCCESS) {
                return 1;
              }
              timespec before = {};
              timespec after = {};
              ::clock_gettime(CLOCK_MONOTONIC, &before);
              if (cuMemFree(block) != CUDA_SUCCESS) return 2;
              ::clock_gettime(CLOCK_MONOTONIC, &after);
              const double seconds = static_cast<double>(after.tv_sec - before.tv_sec) +
                                     static_cast<double>(after.tv_nsec - before.tv_nsec) * 1e-9;
              return seconds > 0.1 ? 0 : 3;
            }),
            0);
  ::unlink(file.c_str());
}

}  // namespace
}  // namespace vram::sim_test
