// Card memory given to other drivers as a descriptor.
#include <fcntl.h>

#include <filesystem>
#include <iterator>

#include "sim_test.h"

namespace vram::sim_test {
namespace {

constexpr size_t kBytes = 8 * kMiB;

class DmaBuf : public OneProcess {
 protected:
  static CUresult export_range(CUdeviceptr address, size_t bytes, int* descriptor) {
    return cuMemGetHandleForAddressRange(descriptor, address, bytes,
                                         CU_MEM_RANGE_HANDLE_TYPE_DMA_BUF_FD, 0);
  }
  static int exported(CUdeviceptr address, size_t bytes) {
    int descriptor = -1;
    EXPECT_EQ(export_range(address, bytes, &descriptor), CUDA_SUCCESS);
    return descriptor;
  }
  static CUdeviceptr allocated(size_t bytes) {
    CUdeviceptr block = 0;
    EXPECT_EQ(cuMemAlloc(&block, bytes), CUDA_SUCCESS);
    return block;
  }
};

TEST_F(DmaBuf, CostsNothingWhileTheMemoryIsThere) {
  const CUdeviceptr block = allocated(kBytes);
  const int descriptor = exported(block, kBytes);
  EXPECT_EQ(taken(), kBytes);
  EXPECT_EQ(::lseek(descriptor, 0, SEEK_END), static_cast<off_t>(kBytes));
  EXPECT_EQ(::close(descriptor), 0);
  EXPECT_EQ(taken(), kBytes);
  EXPECT_EQ(cuMemFree(block), CUDA_SUCCESS);
}

TEST_F(DmaBuf, KeepsMemoryThatIsFreedUntilItsLastCopyIsClosed) {
  const CUdeviceptr block = allocated(kBytes);
  const int descriptor = exported(block, kBytes);
  const int copy = ::dup(descriptor);
  EXPECT_EQ(cuMemFree(block), CUDA_SUCCESS);
  EXPECT_EQ(taken(), kBytes);
  const CUdeviceptr other = allocated(kBytes);
  EXPECT_NE(other, block) << "its bytes are still somebody's";
  EXPECT_EQ(::close(descriptor), 0);
  EXPECT_EQ(taken(), 2 * kBytes);
  EXPECT_EQ(::close(copy), 0);
  EXPECT_EQ(taken(), kBytes);
  EXPECT_EQ(cuMemFree(other), CUDA_SUCCESS);
}

TEST_F(DmaBuf, OfTheSameMemoryEachKeepsIt) {
  const CUdeviceptr block = allocated(kBytes);
  const int first = exported(block, kBytes / 2);
  const int second = exported(block + kBytes / 2, kBytes / 2);
  EXPECT_EQ(cuMemFree(block), CUDA_SUCCESS);
  EXPECT_EQ(::close(second), 0);
  EXPECT_EQ(taken(), kBytes);
  EXPECT_EQ(::close(first), 0);
  EXPECT_EQ(taken(), 0u);
}

TEST_F(DmaBuf, AClosedOneLeavesNoDescriptorBehind) {
  const auto descriptors = [] {
    const std::filesystem::directory_iterator all("/proc/self/fd");
    return std::distance(begin(all), end(all));
  };
  const CUdeviceptr block = allocated(kBytes);
  const auto before = descriptors();
  for (int i = 0; i < 100; ++i) EXPECT_EQ(::close(exported(block, kBytes)), 0);
  EXPECT_LE(descriptors(), before + 1) << "the last may still be there";
  EXPECT_EQ(cuMemFree(block), CUDA_SUCCESS);
  EXPECT_EQ(taken(), 0u);
}

TEST_F(DmaBuf, AClosedOneIsNotTakenForALaterOne) {
  const CUdeviceptr first = allocated(kBytes);
  const CUdeviceptr second = allocated(kBytes);
  EXPECT_EQ(::close(exported(first, kBytes)), 0);
  const int descriptor = exported(second, kBytes);
  EXPECT_EQ(cuMemFree(first), CUDA_SUCCESS);
  EXPECT_EQ(taken(), kBytes);
  EXPECT_EQ(cuMemFree(second), CUDA_SUCCESS);
  EXPECT_EQ(::close(descriptor), 0);
  EXPECT_EQ(taken(), 0u);
}

TEST_F(DmaBuf, OfVirtualMemoryKeepsEveryPiece) {
  constexpr size_t kPiece = kBytes / 2;
  CUmemAllocationProp properties = {};
  properties.type = CU_MEM_ALLOCATION_TYPE_PINNED;
  properties.location = {CU_MEM_LOCATION_TYPE_DEVICE, 0};
  CUdeviceptr range = 0;
  CUmemGenericAllocationHandle pieces[2] = {};
  ASSERT_EQ(cuMemAddressReserve(&range, kBytes, 0, 0, 0), CUDA_SUCCESS);
  int descriptor = -1;
  for (int i = 0; i < 2; ++i) {
    EXPECT_EQ(export_range(range, kBytes, &descriptor), CUDA_ERROR_INVALID_VALUE) << "a gap";
    ASSERT_EQ(cuMemCreate(&pieces[i], kPiece, &properties, 0), CUDA_SUCCESS);
    ASSERT_EQ(cuMemMap(range + i * kPiece, kPiece, 0, pieces[i], 0), CUDA_SUCCESS);
  }
  ASSERT_EQ(export_range(range, kBytes, &descriptor), CUDA_SUCCESS);
  const int part = exported(range + kPiece, kPiece);
  EXPECT_EQ(cuMemUnmap(range, kBytes), CUDA_SUCCESS);
  for (const CUmemGenericAllocationHandle piece : pieces) {
    EXPECT_EQ(cuMemRelease(piece), CUDA_SUCCESS);
  }
  EXPECT_EQ(taken(), kBytes);
  EXPECT_EQ(::close(descriptor), 0);
  EXPECT_EQ(taken(), kPiece);
  EXPECT_EQ(::close(part), 0);
  EXPECT_EQ(taken(), 0u);
  EXPECT_EQ(cuMemAddressFree(range, kBytes), CUDA_SUCCESS);
}

TEST_F(DmaBuf, WrongArgumentsAreRefused) {
  const CUdeviceptr block = allocated(kBytes);
  int descriptor = -1;
  EXPECT_EQ(export_range(block + 512, 4096, &descriptor), CUDA_ERROR_INVALID_VALUE);
  EXPECT_EQ(export_range(block, 512, &descriptor), CUDA_ERROR_INVALID_VALUE);
  EXPECT_EQ(export_range(block, 0, &descriptor), CUDA_ERROR_INVALID_VALUE);
  EXPECT_EQ(export_range(block, kBytes + 4096, &descriptor), CUDA_ERROR_INVALID_VALUE);
  EXPECT_EQ(export_range(0x200000, 4096, &descriptor), CUDA_ERROR_INVALID_VALUE);
  EXPECT_EQ(export_range(block, 4096, nullptr), CUDA_ERROR_INVALID_VALUE);
  EXPECT_EQ(
      cuMemGetHandleForAddressRange(&descriptor, block, 4096, CU_MEM_RANGE_HANDLE_TYPE_MAX, 0),
      CUDA_ERROR_INVALID_VALUE);
  EXPECT_EQ(cuMemGetHandleForAddressRange(&descriptor, block, 4096,
                                          CU_MEM_RANGE_HANDLE_TYPE_DMA_BUF_FD, 2),
            CUDA_ERROR_INVALID_VALUE);
  EXPECT_EQ(descriptor, -1);
  EXPECT_EQ(cuMemFree(block), CUDA_SUCCESS);
}

}  // namespace
}  // namespace vram::sim_test
