// cuMemAlloc and its kin, as docs/design/driver-behaviour.md has them.
#include <array>
#include <cstring>
#include <vector>

#include "sim_test.h"

namespace vram::sim_test {
namespace {

class DeviceMemory : public OneProcess {};

CUdeviceptr allocate(size_t bytes) {
  CUdeviceptr base = 0;
  EXPECT_EQ(cuMemAlloc(&base, bytes), CUDA_SUCCESS) << bytes;
  return base;
}

TEST_F(DeviceMemory, TotalsOfDeviceAndInfoAgree) {
  size_t total = 0;
  size_t free = 0;
  size_t info_total = 0;
  ASSERT_EQ(cuDeviceTotalMem(&total, 0), CUDA_SUCCESS);
  ASSERT_EQ(cuMemGetInfo(&free, &info_total), CUDA_SUCCESS);
  EXPECT_EQ(total, kCardBytes);
  EXPECT_EQ(info_total, kCardBytes);
  EXPECT_EQ(free, kCardBytes - used());
}

TEST_F(DeviceMemory, SmallRequestsShareASlabOf2MiB) {
  std::vector<CUdeviceptr> blocks;
  for (int i = 0; i < 20000; ++i) blocks.push_back(allocate(512));
  EXPECT_EQ(taken(), 10 * kMiB);
  EXPECT_EQ(blocks[1] - blocks[0], 512u);
  for (const CUdeviceptr block : blocks) ASSERT_EQ(cuMemFree(block), CUDA_SUCCESS);
}

TEST_F(DeviceMemory, ASlabGoesBackWithItsLastBlock) {
  const CUdeviceptr first = allocate(1000);
  const CUdeviceptr second = allocate(1000);
  EXPECT_EQ(second - first, 1024u);
  EXPECT_EQ(cuMemFree(first), CUDA_SUCCESS);
  EXPECT_EQ(taken(), 2 * kMiB);
  EXPECT_EQ(cuMemFree(second), CUDA_SUCCESS);
  EXPECT_EQ(taken(), 0u);
}

TEST_F(DeviceMemory, TwoBlocksOf700KiBFillASlab) {
  std::vector<CUdeviceptr> blocks;
  for (int i = 0; i < 64; ++i) blocks.push_back(allocate(700 * kKiB));
  EXPECT_EQ(taken(), 64 * kMiB);
  for (const CUdeviceptr block : blocks) ASSERT_EQ(cuMemFree(block), CUDA_SUCCESS);
}

TEST_F(DeviceMemory, Above1MiBARequestIsRoundedUpTo2MiB) {
  const std::array<std::pair<size_t, size_t>, 6> cases = {{{kMiB, 2 * kMiB},
                                                           {kMiB + 1, 2 * kMiB},
                                                           {2 * kMiB, 2 * kMiB},
                                                           {2 * kMiB + 1, 4 * kMiB},
                                                           {100000000, 96 * kMiB},
                                                           {kGiB, kGiB}}};
  for (const auto& [request, cost] : cases) {
    const CUdeviceptr block = allocate(request);
    EXPECT_EQ(taken(), cost) << request;
    CUdeviceptr base = 0;
    size_t bytes = 0;
    EXPECT_EQ(cuMemGetAddressRange(&base, &bytes, block + request / 2), CUDA_SUCCESS);
    EXPECT_EQ(base, block);
    EXPECT_EQ(bytes, request);
    EXPECT_EQ(cuMemFree(block), CUDA_SUCCESS);
  }
}

TEST_F(DeviceMemory, WrongArgumentsGetTheDriversCodes) {
  CUdeviceptr block = 0;
  EXPECT_EQ(cuMemAlloc(&block, 0), CUDA_ERROR_INVALID_VALUE);
  EXPECT_EQ(cuMemAlloc(nullptr, 512), CUDA_ERROR_INVALID_VALUE);
  EXPECT_EQ(cuMemAlloc(&block, kCardBytes), CUDA_ERROR_OUT_OF_MEMORY);
  EXPECT_EQ(cuMemAlloc(&block, ~size_t{0}), CUDA_ERROR_OUT_OF_MEMORY);
  EXPECT_EQ(block, 0u);
  EXPECT_EQ(cuMemFree(0), CUDA_SUCCESS);
  EXPECT_EQ(cuMemFree(0x1234567), CUDA_ERROR_INVALID_VALUE);
  block = allocate(4096);
  EXPECT_EQ(cuMemFree(block + 256), CUDA_ERROR_INVALID_VALUE);
  EXPECT_EQ(cuMemFree(block), CUDA_SUCCESS);
  EXPECT_EQ(cuMemFree(block), CUDA_ERROR_INVALID_VALUE);
}

TEST_F(DeviceMemory, ACardIsFullAtItsLastPiece) {
  const size_t room = free_bytes() / (2 * kMiB) * (2 * kMiB);
  const CUdeviceptr block = allocate(room - 2 * kMiB);
  const CUdeviceptr last = allocate(2 * kMiB);
  CUdeviceptr more = 0;
  EXPECT_LT(free_bytes(), 2 * kMiB);
  EXPECT_EQ(cuMemAlloc(&more, 1), CUDA_ERROR_OUT_OF_MEMORY);
  EXPECT_EQ(cuMemFree(last), CUDA_SUCCESS);
  EXPECT_EQ(cuMemFree(block), CUDA_SUCCESS);
}

TEST_F(DeviceMemory, PitchOf1000BytesIs1024) {
  CUdeviceptr block = 0;
  size_t pitch = 0;
  ASSERT_EQ(cuMemAllocPitch(&block, &pitch, 1000, 1000, 4), CUDA_SUCCESS);
  EXPECT_EQ(pitch, 1024u);
  EXPECT_EQ(cuMemAllocPitch(&block, &pitch, 1000, 1000, 3), CUDA_ERROR_INVALID_VALUE);
  EXPECT_EQ(cuMemFree(block), CUDA_SUCCESS);
}

TEST_F(DeviceMemory, BytesSurviveAmongOthers) {
  const CUdeviceptr block = allocate(3 * kMiB);
  const CUdeviceptr other = allocate(3 * kMiB);
  ASSERT_EQ(cuMemsetD8(block, 0x5a, 3 * kMiB), CUDA_SUCCESS);
  ASSERT_EQ(cuMemsetD8(other, 0xff, 3 * kMiB), CUDA_SUCCESS);
  std::vector<unsigned char> bytes(3 * kMiB);
  ASSERT_EQ(cuMemcpyDtoH(bytes.data(), block, bytes.size()), CUDA_SUCCESS);
  EXPECT_EQ(std::vector<unsigned char>(3 * kMiB, 0x5a), bytes);
  EXPECT_EQ(cuMemFree(block), CUDA_SUCCESS);
  EXPECT_EQ(cuMemFree(other), CUDA_SUCCESS);
}

TEST_F(DeviceMemory, ACardLargerThanTheHostIsSparse) {
  const CUdeviceptr block = allocate(20 * kGiB);
  ASSERT_EQ(cuMemsetD8(block + 19 * kGiB, 1, 1), CUDA_SUCCESS);
  EXPECT_EQ(cuMemFree(block), CUDA_SUCCESS);
}

TEST_F(DeviceMemory, TheHostCannotDereferenceADevicePointer) {
  const CUdeviceptr block = allocate(4096);
  EXPECT_DEATH(*reinterpret_cast<volatile char*>(block) = 1, "");
  EXPECT_EQ(cuMemFree(block), CUDA_SUCCESS);
}

TEST_F(DeviceMemory, ManagedMemoryCostsTheProcessNothingAndIsSharedWithTheHost) {
  CUdeviceptr block = 0;
  ASSERT_EQ(cuMemAllocManaged(&block, 64 * kMiB, CU_MEM_ATTACH_GLOBAL), CUDA_SUCCESS);
  ASSERT_EQ(cuMemsetD8(block, 7, 64 * kMiB), CUDA_SUCCESS);
  EXPECT_EQ(cuCtxSynchronize(), CUDA_SUCCESS);
  EXPECT_EQ(taken(), 0u);
  EXPECT_EQ(*reinterpret_cast<unsigned char*>(block + kMiB), 7);
  unsigned managed = 0;
  EXPECT_EQ(cuPointerGetAttribute(&managed, CU_POINTER_ATTRIBUTE_IS_MANAGED, block), CUDA_SUCCESS);
  EXPECT_EQ(managed, 1u);
  int preferred = 0;
  EXPECT_EQ(cuMemRangeGetAttribute(&preferred, sizeof(preferred),
                                   CU_MEM_RANGE_ATTRIBUTE_PREFERRED_LOCATION, block, kMiB),
            CUDA_SUCCESS);
  EXPECT_EQ(preferred, CU_DEVICE_INVALID);
  EXPECT_EQ(cuMemRangeGetAttribute(&preferred, sizeof(preferred),
                                   CU_MEM_RANGE_ATTRIBUTE_PREFERRED_LOCATION, block, 65 * kMiB),
            CUDA_ERROR_INVALID_VALUE);
  EXPECT_EQ(cuMemAllocManaged(&block, 64 * kMiB, 0), CUDA_ERROR_INVALID_VALUE);
  EXPECT_EQ(cuMemFree(block), CUDA_SUCCESS);
}

TEST_F(DeviceMemory, PinnedMemoryCostsTheCardNothing) {
  void* block = nullptr;
  ASSERT_EQ(cuMemHostAlloc(&block, 64 * kMiB, CU_MEMHOSTALLOC_DEVICEMAP), CUDA_SUCCESS);
  EXPECT_EQ(taken(), 0u);
  CUdeviceptr device = 0;
  EXPECT_EQ(cuMemHostGetDevicePointer(&device, block, 0), CUDA_SUCCESS);
  ASSERT_EQ(cuMemsetD8(device, 9, 16), CUDA_SUCCESS);
  EXPECT_EQ(cuCtxSynchronize(), CUDA_SUCCESS);
  EXPECT_EQ(static_cast<char*>(block)[15], 9);
  EXPECT_EQ(cuMemFreeHost(block), CUDA_SUCCESS);
  EXPECT_EQ(cuMemFreeHost(block), CUDA_ERROR_INVALID_VALUE);
}

TEST_F(DeviceMemory, HostMemoryIsRegisteredOnce) {
  std::vector<char> bytes(kMiB);
  ASSERT_EQ(cuMemHostRegister(bytes.data(), kMiB, 0), CUDA_SUCCESS);
  EXPECT_EQ(cuMemHostRegister(bytes.data(), kMiB, 0), CUDA_ERROR_HOST_MEMORY_ALREADY_REGISTERED);
  EXPECT_EQ(cuMemHostUnregister(bytes.data()), CUDA_SUCCESS);
  EXPECT_EQ(cuMemHostUnregister(bytes.data()), CUDA_ERROR_HOST_MEMORY_NOT_REGISTERED);
}

TEST_F(DeviceMemory, PointerAttributesTellTheRange) {
  const CUdeviceptr block = allocate(5000);
  unsigned type = 0;
  CUdeviceptr start = 0;
  size_t bytes = 0;
  CUcontext context = nullptr;
  CUpointer_attribute names[] = {CU_POINTER_ATTRIBUTE_MEMORY_TYPE, CU_POINTER_ATTRIBUTE_CONTEXT,
                                 CU_POINTER_ATTRIBUTE_RANGE_START_ADDR,
                                 CU_POINTER_ATTRIBUTE_RANGE_SIZE};
  void* values[] = {&type, &context, &start, &bytes};
  ASSERT_EQ(cuPointerGetAttributes(4, names, values, block + 100), CUDA_SUCCESS);
  CUcontext current = nullptr;
  ASSERT_EQ(cuCtxGetCurrent(&current), CUDA_SUCCESS);
  EXPECT_EQ(type, unsigned{CU_MEMORYTYPE_DEVICE});
  EXPECT_EQ(context, current);
  EXPECT_EQ(start, block);
  EXPECT_EQ(bytes, 5000u);
  ASSERT_EQ(cuMemFree(block), CUDA_SUCCESS);
  EXPECT_EQ(cuPointerGetAttribute(&type, CU_POINTER_ATTRIBUTE_MEMORY_TYPE, block),
            CUDA_ERROR_INVALID_VALUE);
  EXPECT_EQ(cuPointerGetAttributes(4, names, values, block), CUDA_SUCCESS);
  EXPECT_EQ(type, 0u);
}

}  // namespace
}  // namespace vram::sim_test
