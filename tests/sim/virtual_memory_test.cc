// Virtual memory, as docs/design/driver-behaviour.md has it.
#include <vector>

#include "sim_test.h"

namespace vram::sim_test {
namespace {

constexpr size_t kBytes = 64 * kMiB;

class VirtualMemory : public OneProcess {
 protected:
  void SetUp() override {
    OneProcess::SetUp();
    ASSERT_EQ(cuMemAddressReserve(&range_, kBytes, 0, 0, 0), CUDA_SUCCESS);
  }
  void TearDown() override {
    EXPECT_EQ(cuMemAddressFree(range_, kBytes), CUDA_SUCCESS);
    OneProcess::TearDown();
  }
  static CUmemAllocationProp on_device(CUdevice device) {
    CUmemAllocationProp properties = {};
    properties.type = CU_MEM_ALLOCATION_TYPE_PINNED;
    properties.location = {CU_MEM_LOCATION_TYPE_DEVICE, device};
    return properties;
  }
  static CUmemGenericAllocationHandle create(size_t bytes = kBytes) {
    const CUmemAllocationProp properties = on_device(0);
    CUmemGenericAllocationHandle handle = 0;
    EXPECT_EQ(cuMemCreate(&handle, bytes, &properties, 0), CUDA_SUCCESS);
    return handle;
  }
  void allow(CUmemAccess_flags flags = CU_MEM_ACCESS_FLAGS_PROT_READWRITE) const {
    const CUmemAccessDesc access = {{CU_MEM_LOCATION_TYPE_DEVICE, 0}, flags};
    EXPECT_EQ(cuMemSetAccess(range_, kBytes, &access, 1), CUDA_SUCCESS);
  }

  CUdeviceptr range_ = 0;
};

TEST_F(VirtualMemory, PhysicalMemoryLivesUntilHandleAndMappingAreGone) {
  CUmemGenericAllocationHandle handle = create();
  EXPECT_EQ(taken(), kBytes);
  ASSERT_EQ(cuMemMap(range_, kBytes, 0, handle, 0), CUDA_SUCCESS);
  EXPECT_EQ(cuMemRelease(handle), CUDA_SUCCESS);
  EXPECT_EQ(taken(), kBytes);
  CUmemGenericAllocationHandle again = 0;
  EXPECT_EQ(cuMemRetainAllocationHandle(&again, reinterpret_cast<void*>(range_ + 4096)),
            CUDA_SUCCESS);
  EXPECT_EQ(again, handle);
  EXPECT_EQ(cuMemUnmap(range_, kBytes), CUDA_SUCCESS);
  EXPECT_EQ(taken(), kBytes);
  EXPECT_EQ(cuMemRelease(again), CUDA_SUCCESS);
  EXPECT_EQ(taken(), 0u);
  EXPECT_EQ(cuMemRelease(again), CUDA_ERROR_INVALID_VALUE);
}

TEST_F(VirtualMemory, SizesAreMultiplesOf2MiB) {
  const CUmemAllocationProp properties = on_device(0);
  size_t granularity = 0;
  EXPECT_EQ(cuMemGetAllocationGranularity(&granularity, &properties,
                                          CU_MEM_ALLOC_GRANULARITY_RECOMMENDED),
            CUDA_SUCCESS);
  EXPECT_EQ(granularity, 2 * kMiB);
  CUmemGenericAllocationHandle handle = 0;
  EXPECT_EQ(cuMemCreate(&handle, kBytes + 1, &properties, 0), CUDA_ERROR_INVALID_VALUE);
  EXPECT_EQ(cuMemCreate(&handle, 0, &properties, 0), CUDA_ERROR_INVALID_VALUE);
  EXPECT_EQ(cuMemCreate(&handle, kCardBytes, &properties, 0), CUDA_ERROR_OUT_OF_MEMORY);
}

TEST_F(VirtualMemory, AHandleIsMappedWhole) {
  const CUmemGenericAllocationHandle handle = create();
  EXPECT_EQ(cuMemMap(range_, kBytes / 2, 0, handle, 0), CUDA_ERROR_NOT_SUPPORTED);
  EXPECT_EQ(cuMemMap(range_, kBytes / 2, kBytes / 2, handle, 0), CUDA_ERROR_NOT_SUPPORTED);
  ASSERT_EQ(cuMemMap(range_, kBytes, 0, handle, 0), CUDA_SUCCESS);
  EXPECT_EQ(cuMemMap(range_, kBytes, 0, handle, 0), CUDA_ERROR_INVALID_VALUE);
  EXPECT_EQ(cuMemUnmap(range_, kBytes / 2), CUDA_ERROR_INVALID_VALUE);
  EXPECT_EQ(cuMemAddressFree(range_, kBytes), CUDA_ERROR_INVALID_VALUE);
  EXPECT_EQ(cuMemUnmap(range_, kBytes), CUDA_SUCCESS);
  EXPECT_EQ(cuMemRelease(handle), CUDA_SUCCESS);
}

TEST_F(VirtualMemory, BytesStayWithTheHandleNotTheAddress) {
  const CUmemGenericAllocationHandle handle = create();
  ASSERT_EQ(cuMemMap(range_, kBytes, 0, handle, 0), CUDA_SUCCESS);
  EXPECT_NE(cuMemsetD8(range_, 1, 1), CUDA_SUCCESS) << "not accessible yet";
  allow();
  ASSERT_EQ(cuMemsetD32(range_ + kMiB, 0xabcd, 4), CUDA_SUCCESS);
  ASSERT_EQ(cuCtxSynchronize(), CUDA_SUCCESS) << "unmapping does not wait for the card";
  ASSERT_EQ(cuMemUnmap(range_, kBytes), CUDA_SUCCESS);
  EXPECT_NE(cuMemsetD8(range_, 1, 1), CUDA_SUCCESS) << "not mapped any more";
  ASSERT_EQ(cuMemMap(range_, kBytes, 0, handle, 0), CUDA_SUCCESS);
  allow();
  unsigned value = 0;
  EXPECT_EQ(cuMemcpyDtoH(&value, range_ + kMiB, 4), CUDA_SUCCESS);
  EXPECT_EQ(value, 0xabcdu);
  EXPECT_EQ(cuMemUnmap(range_, kBytes), CUDA_SUCCESS);
  EXPECT_EQ(cuMemRelease(handle), CUDA_SUCCESS);
}

TEST_F(VirtualMemory, AdjacentMappingsMakeOneRange) {
  std::vector<CUmemGenericAllocationHandle> handles;
  for (size_t at = 0; at < kBytes; at += 2 * kMiB) {
    handles.push_back(create(2 * kMiB));
    ASSERT_EQ(cuMemMap(range_ + at, 2 * kMiB, 0, handles.back(), 0), CUDA_SUCCESS);
  }
  allow();
  EXPECT_EQ(cuMemsetD8(range_, 3, kBytes), CUDA_SUCCESS);
  unsigned char value = 0;
  EXPECT_EQ(cuMemcpyDtoH(&value, range_ + kBytes - 1, 1), CUDA_SUCCESS);
  EXPECT_EQ(value, 3);
  EXPECT_EQ(cuMemUnmap(range_, kBytes), CUDA_SUCCESS);
  for (const CUmemGenericAllocationHandle handle : handles) {
    EXPECT_EQ(cuMemRelease(handle), CUDA_SUCCESS);
  }
}

TEST_F(VirtualMemory, TheCardInThePropertiesPays) {
  const size_t other_before = used_by(::getpid(), 1);
  const CUmemAllocationProp properties = on_device(1);
  CUmemGenericAllocationHandle handle = 0;
  ASSERT_EQ(cuMemCreate(&handle, kBytes, &properties, 0), CUDA_SUCCESS);
  EXPECT_EQ(taken(), 0u);
  EXPECT_EQ(used_by(::getpid(), 1) - other_before, kBytes);
  EXPECT_EQ(cuMemRelease(handle), CUDA_SUCCESS);
}

TEST_F(VirtualMemory, HostMemoryCostsNoCardAndTheHostCanUseIt) {
  CUmemAllocationProp properties = on_device(0);
  properties.location = {CU_MEM_LOCATION_TYPE_HOST, 0};
  CUmemGenericAllocationHandle handle = 0;
  ASSERT_EQ(cuMemCreate(&handle, kBytes, &properties, 0), CUDA_SUCCESS);
  EXPECT_EQ(taken(), 0u);
  ASSERT_EQ(cuMemMap(range_, kBytes, 0, handle, 0), CUDA_SUCCESS);
  allow();
  const CUmemAccessDesc access = {{CU_MEM_LOCATION_TYPE_HOST, 0},
                                  CU_MEM_ACCESS_FLAGS_PROT_READWRITE};
  ASSERT_EQ(cuMemSetAccess(range_, kBytes, &access, 1), CUDA_SUCCESS);
  ASSERT_EQ(cuMemsetD8(range_, 5, 16), CUDA_SUCCESS);
  EXPECT_EQ(cuCtxSynchronize(), CUDA_SUCCESS);
  EXPECT_EQ(*reinterpret_cast<unsigned char*>(range_ + 15), 5);
  EXPECT_EQ(cuMemUnmap(range_, kBytes), CUDA_SUCCESS);
  EXPECT_EQ(cuMemRelease(handle), CUDA_SUCCESS);
}

TEST_F(VirtualMemory, AMappedPointerTellsReservationAndMapping) {
  const CUmemGenericAllocationHandle handle = create(2 * kMiB);
  ASSERT_EQ(cuMemMap(range_ + 2 * kMiB, 2 * kMiB, 0, handle, 0), CUDA_SUCCESS);
  CUdeviceptr start = 0;
  CUdeviceptr mapping = 0;
  unsigned mapped = 1;
  const CUdeviceptr inside = range_ + 3 * kMiB;
  EXPECT_EQ(cuPointerGetAttribute(&start, CU_POINTER_ATTRIBUTE_RANGE_START_ADDR, inside),
            CUDA_SUCCESS);
  EXPECT_EQ(cuPointerGetAttribute(&mapping, CU_POINTER_ATTRIBUTE_MAPPING_BASE_ADDR, inside),
            CUDA_SUCCESS);
  EXPECT_EQ(cuPointerGetAttribute(&mapped, CU_POINTER_ATTRIBUTE_MAPPED, range_), CUDA_SUCCESS);
  EXPECT_EQ(start, range_);
  EXPECT_EQ(mapping, range_ + 2 * kMiB);
  EXPECT_EQ(mapped, 0u);
  EXPECT_EQ(cuMemUnmap(range_ + 2 * kMiB, 2 * kMiB), CUDA_SUCCESS);
  EXPECT_EQ(cuMemRelease(handle), CUDA_SUCCESS);
}

}  // namespace
}  // namespace vram::sim_test
