// Stream-ordered pools, as docs/design/driver-behaviour.md has them.
#include <array>
#include <vector>

#include "sim_test.h"

namespace vram::sim_test {
namespace {

class Pools : public OneProcess {
 protected:
  void SetUp() override {
    OneProcess::SetUp();
    ASSERT_EQ(cuDeviceGetDefaultMemPool(&pool_, 0), CUDA_SUCCESS);
  }
  CUdeviceptr allocate(size_t bytes) const {
    CUdeviceptr block = 0;
    EXPECT_EQ(cuMemAllocAsync(&block, bytes, stream_), CUDA_SUCCESS) << bytes;
    return block;
  }
  void free(CUdeviceptr block) const { EXPECT_EQ(cuMemFreeAsync(block, stream_), CUDA_SUCCESS); }
  void synchronise() const { EXPECT_EQ(cuStreamSynchronize(stream_), CUDA_SUCCESS); }
  [[nodiscard]] static size_t attribute(CUmemoryPool pool, CUmemPool_attribute which) {
    cuuint64_t value = 0;
    EXPECT_EQ(cuMemPoolGetAttribute(pool, which, &value), CUDA_SUCCESS);
    return value;
  }
  [[nodiscard]] size_t reserved() const {
    return attribute(pool_, CU_MEMPOOL_ATTR_RESERVED_MEM_CURRENT);
  }
  static CUmemoryPool create(size_t max_bytes) {
    CUmemPoolProps properties = {};
    properties.allocType = CU_MEM_ALLOCATION_TYPE_PINNED;
    properties.location = {CU_MEM_LOCATION_TYPE_DEVICE, 0};
    properties.maxSize = max_bytes;
    CUmemoryPool pool = nullptr;
    EXPECT_EQ(cuMemPoolCreate(&pool, &properties), CUDA_SUCCESS);
    return pool;
  }

  CUmemoryPool pool_ = nullptr;
};

TEST_F(Pools, GrowByWhole32MiBLessTheFreeTail) {
  struct Case {
    size_t request, first, second;
  };
  for (const Case& expected : {Case{512, 32, 32}, Case{kMiB, 32, 32}, Case{32 * kMiB, 32, 64},
                               Case{33 * kMiB, 64, 96}, Case{1000 * kMiB, 1024, 2016}}) {
    const CUdeviceptr first = allocate(expected.request);
    EXPECT_EQ(reserved(), expected.first * kMiB) << expected.request;
    EXPECT_EQ(taken(), expected.first * kMiB);
    const CUdeviceptr second = allocate(expected.request);
    EXPECT_EQ(reserved(), expected.second * kMiB) << expected.request;
    free(first);
    free(second);
    synchronise();
  }
}

TEST_F(Pools, UnusedMemoryGoesBackAtTheSynchronisation) {
  const CUdeviceptr block = allocate(100 * kMiB);
  free(block);
  EXPECT_EQ(reserved(), 128 * kMiB);
  synchronise();
  EXPECT_EQ(reserved(), 0u);
  EXPECT_EQ(taken(), 0u);
}

TEST_F(Pools, AThresholdKeepsMemory) {
  cuuint64_t threshold = ~0ull;
  ASSERT_EQ(cuMemPoolSetAttribute(pool_, CU_MEMPOOL_ATTR_RELEASE_THRESHOLD, &threshold),
            CUDA_SUCCESS);
  free(allocate(100 * kMiB));
  synchronise();
  EXPECT_EQ(reserved(), 128 * kMiB);
  EXPECT_EQ(cuMemPoolTrimTo(pool_, 64 * kMiB), CUDA_SUCCESS);
  EXPECT_EQ(reserved(), 64 * kMiB);
  threshold = 0;
  ASSERT_EQ(cuMemPoolSetAttribute(pool_, CU_MEMPOOL_ATTR_RELEASE_THRESHOLD, &threshold),
            CUDA_SUCCESS);
  synchronise();
  EXPECT_EQ(reserved(), 0u);
}

TEST_F(Pools, TrimKeepsPiecesInUseAndPendingFrees) {
  cuuint64_t threshold = ~0ull;
  ASSERT_EQ(cuMemPoolSetAttribute(pool_, CU_MEMPOOL_ATTR_RELEASE_THRESHOLD, &threshold),
            CUDA_SUCCESS);
  std::vector<CUdeviceptr> blocks;
  for (int i = 0; i < 100; ++i) blocks.push_back(allocate(3 * kMiB));
  EXPECT_EQ(reserved(), 320 * kMiB);
  for (size_t i = 0; i < blocks.size(); ++i) {
    if (i % 25 != 0) free(blocks[i]);
  }
  synchronise();
  EXPECT_EQ(cuMemPoolTrimTo(pool_, 0), CUDA_SUCCESS);
  const size_t with_four_live = reserved();
  EXPECT_EQ(with_four_live, 4 * 32 * kMiB);
  for (size_t i = 0; i < blocks.size(); i += 25) free(blocks[i]);
  EXPECT_EQ(cuMemPoolTrimTo(pool_, 0), CUDA_SUCCESS);
  EXPECT_EQ(reserved(), with_four_live) << "the frees are still pending";
  synchronise();
  EXPECT_EQ(cuMemPoolTrimTo(pool_, 0), CUDA_SUCCESS);
  EXPECT_EQ(reserved(), 0u);
}

TEST_F(Pools, TheStreamThatFreedABlockReusesItAtOnce) {
  const CUdeviceptr block = allocate(10 * kMiB);
  free(block);
  EXPECT_EQ(allocate(10 * kMiB), block);
  free(block);
  synchronise();
}

TEST_F(Pools, UsedCountsLiveBlocks) {
  const CUdeviceptr block = allocate(1000);
  EXPECT_EQ(attribute(pool_, CU_MEMPOOL_ATTR_USED_MEM_CURRENT), 1024u);
  free(block);
  synchronise();
  EXPECT_EQ(attribute(pool_, CU_MEMPOOL_ATTR_USED_MEM_CURRENT), 0u);
  EXPECT_GE(attribute(pool_, CU_MEMPOOL_ATTR_USED_MEM_HIGH), 1024u);
}

TEST_F(Pools, MaximumIsRoundedUpTo32MiBAndHolds) {
  const CUmemoryPool pool = create(40 * kMiB);
  CUdeviceptr block = 0;
  CUdeviceptr more = 0;
  EXPECT_EQ(cuMemAllocFromPoolAsync(&block, 65 * kMiB, pool, stream_), CUDA_ERROR_OUT_OF_MEMORY);
  ASSERT_EQ(cuMemAllocFromPoolAsync(&block, 64 * kMiB, pool, stream_), CUDA_SUCCESS);
  EXPECT_EQ(cuMemAllocFromPoolAsync(&more, 512, pool, stream_), CUDA_ERROR_OUT_OF_MEMORY);
  free(block);
  synchronise();
  EXPECT_EQ(cuMemPoolDestroy(pool), CUDA_SUCCESS);
}

TEST_F(Pools, ADestroyedPoolLivesUntilItsLastBlockIsFreed) {
  const CUmemoryPool pool = create(0);
  CUdeviceptr block = 0;
  ASSERT_EQ(cuMemAllocFromPoolAsync(&block, 64 * kMiB, pool, stream_), CUDA_SUCCESS);
  EXPECT_EQ(cuMemPoolDestroy(pool), CUDA_SUCCESS);
  EXPECT_EQ(taken(), 64 * kMiB);
  EXPECT_EQ(cuMemPoolDestroy(pool), CUDA_ERROR_INVALID_VALUE);
  free(block);
  synchronise();
  EXPECT_EQ(taken(), 0u);
}

TEST_F(Pools, OverTheCardIsOutOfMemory) {
  CUdeviceptr block = 0;
  EXPECT_EQ(cuMemAllocAsync(&block, kCardBytes, stream_), CUDA_ERROR_OUT_OF_MEMORY);
  EXPECT_EQ(cuMemAllocAsync(&block, ~size_t{0}, stream_), CUDA_ERROR_OUT_OF_MEMORY);
  EXPECT_EQ(cuMemAllocAsync(&block, 0, stream_), CUDA_ERROR_INVALID_VALUE);
  EXPECT_EQ(taken(), 0u);
}

TEST_F(Pools, CuMemFreeTakesABlockOfAPool) {
  const CUdeviceptr block = allocate(kMiB);
  EXPECT_EQ(cuMemFree(block), CUDA_SUCCESS);
  EXPECT_EQ(cuMemFree(block), CUDA_ERROR_INVALID_VALUE);
  synchronise();
}

TEST_F(Pools, TheDevicesPoolCanBeReplaced) {
  const CUmemoryPool pool = create(0);
  ASSERT_EQ(cuDeviceSetMemPool(0, pool), CUDA_SUCCESS);
  const CUdeviceptr block = allocate(kMiB);
  EXPECT_EQ(attribute(pool, CU_MEMPOOL_ATTR_RESERVED_MEM_CURRENT), 32 * kMiB);
  EXPECT_EQ(reserved(), 0u);
  free(block);
  synchronise();
  EXPECT_EQ(cuMemPoolDestroy(pool), CUDA_SUCCESS);
  CUmemoryPool current = nullptr;
  EXPECT_EQ(cuDeviceGetMemPool(&current, 0), CUDA_SUCCESS);
  EXPECT_EQ(current, pool_);
}

}  // namespace
}  // namespace vram::sim_test
