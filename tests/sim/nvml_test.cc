// The management library of the simulated GPU.
#include <cstring>
#include <string>

#include "sim_test.h"

namespace vram::sim_test {
namespace {

constexpr size_t kReservedBytes = 615 * kMiB;

class Management : public ::testing::Test {
 protected:
  void SetUp() override { ASSERT_EQ(nvmlInit_v2(), NVML_SUCCESS); }
  void TearDown() override { EXPECT_EQ(nvmlShutdown(), NVML_SUCCESS); }
};

TEST(ManagementLife, InitialisationIsCounted) {
  unsigned count = 0;
  EXPECT_EQ(nvmlDeviceGetCount_v2(&count), NVML_ERROR_UNINITIALIZED);
  EXPECT_EQ(nvmlShutdown(), NVML_ERROR_UNINITIALIZED);
  ASSERT_EQ(nvmlInit_v2(), NVML_SUCCESS);
  ASSERT_EQ(nvmlInitWithFlags(0), NVML_SUCCESS);
  EXPECT_EQ(nvmlShutdown(), NVML_SUCCESS);
  EXPECT_EQ(nvmlDeviceGetCount_v2(&count), NVML_SUCCESS);
  EXPECT_EQ(count, 2u);
  EXPECT_EQ(nvmlShutdown(), NVML_SUCCESS);
  EXPECT_EQ(nvmlDeviceGetCount_v2(&count), NVML_ERROR_UNINITIALIZED);
}

TEST_F(Management, TotalsExceedTheDriversByWhatTheCardKeeps) {
  nvmlMemory_t v1 = {};
  nvmlMemory_v2_t v2 = {};
  v2.version = nvmlMemory_v2;
  ASSERT_EQ(nvmlDeviceGetMemoryInfo(card(0), &v1), NVML_SUCCESS);
  ASSERT_EQ(nvmlDeviceGetMemoryInfo_v2(card(0), &v2), NVML_SUCCESS);
  EXPECT_EQ(v1.total, kCardBytes + kReservedBytes);
  EXPECT_EQ(v2.total, v1.total);
  EXPECT_EQ(v2.reserved, kReservedBytes);
  EXPECT_EQ(v2.used, 0u);
  EXPECT_EQ(v1.used, kReservedBytes) << "version 1 counts it as used";
  EXPECT_EQ(v1.free, v2.free);
  EXPECT_EQ(v2.free, kCardBytes);
}

TEST_F(Management, AStructOfAnotherVersionIsRefused) {
  nvmlMemory_v2_t memory = {};
  EXPECT_EQ(nvmlDeviceGetMemoryInfo_v2(card(0), &memory), NVML_ERROR_ARGUMENT_VERSION_MISMATCH);
  nvmlProcessDetailList_t details = {};
  EXPECT_EQ(nvmlDeviceGetRunningProcessDetailList(card(0), &details),
            NVML_ERROR_ARGUMENT_VERSION_MISMATCH);
}

TEST_F(Management, HandlesAreFoundByIndexUuidAndBusId) {
  for (unsigned i = 0; i < 2; ++i) {
    char uuid[96];
    nvmlPciInfo_t pci = {};
    nvmlDevice_t by_uuid = nullptr;
    nvmlDevice_t by_bus = nullptr;
    ASSERT_EQ(nvmlDeviceGetUUID(card(i), uuid, sizeof(uuid)), NVML_SUCCESS);
    ASSERT_EQ(nvmlDeviceGetHandleByUUID(uuid, &by_uuid), NVML_SUCCESS);
    ASSERT_EQ(nvmlDeviceGetPciInfo_v3(card(i), &pci), NVML_SUCCESS);
    ASSERT_EQ(nvmlDeviceGetHandleByPciBusId_v2(pci.busId, &by_bus), NVML_SUCCESS);
    EXPECT_EQ(by_uuid, card(i));
    EXPECT_EQ(by_bus, card(i));
  }
  nvmlDevice_t device = nullptr;
  EXPECT_EQ(nvmlDeviceGetHandleByIndex_v2(2, &device), NVML_ERROR_INVALID_ARGUMENT);
  EXPECT_EQ(nvmlDeviceGetHandleByUUID("GPU-0", &device), NVML_ERROR_NOT_FOUND);
  char name[4];
  EXPECT_EQ(nvmlDeviceGetName(card(0), name, sizeof(name)), NVML_ERROR_INSUFFICIENT_SIZE);
  EXPECT_EQ(nvmlDeviceGetName(nullptr, name, sizeof(name)), NVML_ERROR_INVALID_ARGUMENT);
}

TEST_F(Management, DriverAndManagementAgreeOnACard) {
  ASSERT_EQ(use_primary(1), CUDA_SUCCESS);
  CUuuid uuid = {};
  ASSERT_EQ(cuDeviceGetUuid(&uuid, 1), CUDA_SUCCESS);
  const auto* byte = reinterpret_cast<const unsigned char*>(uuid.bytes);
  char text[16];
  std::snprintf(text, sizeof(text), "GPU-%02x%02x%02x%02x", byte[0], byte[1], byte[2], byte[3]);
  char told[96];
  ASSERT_EQ(nvmlDeviceGetUUID(card(1), told, sizeof(told)), NVML_SUCCESS);
  EXPECT_EQ(std::string(told).substr(0, 12), text);
  EXPECT_EQ(used_by(::getpid(), 1), kContextBytes);
  EXPECT_EQ(used_by(::getpid(), 0), 0u);
  EXPECT_EQ(cuDevicePrimaryCtxRelease(1), CUDA_SUCCESS);
}

TEST_F(Management, AListThatIsTooShortTellsTheLength) {
  ASSERT_EQ(use_primary(), CUDA_SUCCESS);
  unsigned count = 0;
  EXPECT_EQ(nvmlDeviceGetComputeRunningProcesses_v3(card(0), &count, nullptr),
            NVML_ERROR_INSUFFICIENT_SIZE);
  EXPECT_EQ(count, 1u);
  nvmlProcessInfo_t info = {};
  ASSERT_EQ(nvmlDeviceGetComputeRunningProcesses_v3(card(0), &count, &info), NVML_SUCCESS);
  EXPECT_EQ(info.pid, static_cast<unsigned>(::getpid()));
  EXPECT_EQ(info.usedGpuMemory, kContextBytes);
  count = 1;
  EXPECT_EQ(nvmlDeviceGetGraphicsRunningProcesses_v3(card(0), &count, &info), NVML_SUCCESS);
  EXPECT_EQ(count, 0u);
  nvmlProcessDetail_v1_t detail = {};
  nvmlProcessDetailList_t details = {};
  details.version = nvmlProcessDetailList_v1;
  details.numProcArrayEntries = 1;
  details.procArray = &detail;
  ASSERT_EQ(nvmlDeviceGetRunningProcessDetailList(card(0), &details), NVML_SUCCESS);
  EXPECT_EQ(detail.usedGpuMemory, kContextBytes);
  EXPECT_EQ(cuDevicePrimaryCtxRelease(0), CUDA_SUCCESS);
}

TEST_F(Management, WhatIsNotSimulatedSaysSo) {
  unsigned speed = 0;
  EXPECT_EQ(nvmlDeviceGetFanSpeed(card(0), &speed), NVML_ERROR_NOT_SUPPORTED);
  EXPECT_STREQ(nvmlErrorString(NVML_ERROR_NOT_SUPPORTED), "Not Supported");
}

TEST_F(Management, VersionsAreThoseOfADriver580) {
  char text[96];
  int version = 0;
  ASSERT_EQ(nvmlSystemGetDriverVersion(text, sizeof(text)), NVML_SUCCESS);
  EXPECT_EQ(std::string(text).substr(0, 4), "580.");
  ASSERT_EQ(nvmlSystemGetCudaDriverVersion_v2(&version), NVML_SUCCESS);
  int drivers = 0;
  ASSERT_EQ(cuDriverGetVersion(&drivers), CUDA_SUCCESS);
  EXPECT_EQ(version, drivers);
}

}  // namespace
}  // namespace vram::sim_test
