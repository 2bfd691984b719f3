// Arrays, as docs/design/driver-behaviour.md has them.
#include <vector>

#include "sim_test.h"

namespace vram::sim_test {
namespace {

class Arrays : public OneProcess {
 protected:
  static CUDA_ARRAY3D_DESCRIPTOR floats(size_t width, size_t height, unsigned channels,
                                        unsigned flags = 0) {
    CUDA_ARRAY3D_DESCRIPTOR description = {};
    description.Width = width;
    description.Height = height;
    description.Format = CU_AD_FORMAT_FLOAT;
    description.NumChannels = channels;
    description.Flags = flags;
    return description;
  }
};

TEST_F(Arrays, AMillionFloatsCost4MiB) {
  CUarray array = nullptr;
  const CUDA_ARRAY_DESCRIPTOR description = {1000, 1000, CU_AD_FORMAT_FLOAT, 1};
  ASSERT_EQ(cuArrayCreate(&array, &description), CUDA_SUCCESS);
  EXPECT_EQ(taken(), 4 * kMiB);
  CUDA_ARRAY_MEMORY_REQUIREMENTS needs = {};
  EXPECT_EQ(cuArrayGetMemoryRequirements(&needs, array, 0), CUDA_ERROR_INVALID_VALUE);
  CUDA_ARRAY_DESCRIPTOR told = {};
  EXPECT_EQ(cuArrayGetDescriptor(&told, array), CUDA_SUCCESS);
  EXPECT_EQ(told.Width, 1000u);
  EXPECT_EQ(cuArrayDestroy(array), CUDA_SUCCESS);
  EXPECT_EQ(cuArrayDestroy(array), CUDA_ERROR_INVALID_HANDLE);
  EXPECT_EQ(taken(), 0u);
}

TEST_F(Arrays, AMipmapOfFiveLevelsCosts22MiB) {
  const CUDA_ARRAY3D_DESCRIPTOR description = floats(1024, 1024, 4);
  CUmipmappedArray mipmap = nullptr;
  ASSERT_EQ(cuMipmappedArrayCreate(&mipmap, &description, 5), CUDA_SUCCESS);
  EXPECT_EQ(taken(), 22 * kMiB);
  CUarray level = nullptr;
  ASSERT_EQ(cuMipmappedArrayGetLevel(&level, mipmap, 4), CUDA_SUCCESS);
  CUDA_ARRAY_DESCRIPTOR told = {};
  EXPECT_EQ(cuArrayGetDescriptor(&told, level), CUDA_SUCCESS);
  EXPECT_EQ(told.Width, 64u);
  EXPECT_EQ(cuMipmappedArrayGetLevel(&level, mipmap, 5), CUDA_ERROR_INVALID_VALUE);
  EXPECT_EQ(cuMipmappedArrayDestroy(mipmap), CUDA_SUCCESS);
}

TEST_F(Arrays, SparseAndDeferredOnesCostNothingAndTellWhatTheyNeed) {
  for (const unsigned flag : {CUDA_ARRAY3D_SPARSE, CUDA_ARRAY3D_DEFERRED_MAPPING}) {
    const CUDA_ARRAY3D_DESCRIPTOR description = floats(1024, 1024, 4, flag);
    CUarray array = nullptr;
    ASSERT_EQ(cuArray3DCreate(&array, &description), CUDA_SUCCESS);
    EXPECT_EQ(taken(), 0u);
    CUDA_ARRAY_MEMORY_REQUIREMENTS needs = {};
    EXPECT_EQ(cuArrayGetMemoryRequirements(&needs, array, 0), CUDA_SUCCESS);
    EXPECT_EQ(needs.size, 16 * kMiB);
    EXPECT_EQ(cuArrayDestroy(array), CUDA_SUCCESS);
  }
}

TEST_F(Arrays, BytesComeBackFromARectangle) {
  const CUDA_ARRAY_DESCRIPTOR description = {100, 50, CU_AD_FORMAT_FLOAT, 1};
  CUarray array = nullptr;
  ASSERT_EQ(cuArrayCreate(&array, &description), CUDA_SUCCESS);
  std::vector<float> sent(20 * 10);
  for (size_t i = 0; i < sent.size(); ++i) sent[i] = static_cast<float>(i);
  CUDA_MEMCPY2D copy = {};
  copy.srcMemoryType = CU_MEMORYTYPE_HOST;
  copy.srcHost = sent.data();
  copy.srcPitch = 80;
  copy.dstMemoryType = CU_MEMORYTYPE_ARRAY;
  copy.dstArray = array;
  copy.dstXInBytes = 40;
  copy.dstY = 5;
  copy.WidthInBytes = 80;
  copy.Height = 10;
  ASSERT_EQ(cuMemcpy2D(&copy), CUDA_SUCCESS);
  std::vector<float> got(20 * 10);
  CUDA_MEMCPY2D back = {};
  back.srcMemoryType = CU_MEMORYTYPE_ARRAY;
  back.srcArray = array;
  back.srcXInBytes = 40;
  back.srcY = 5;
  back.dstMemoryType = CU_MEMORYTYPE_HOST;
  back.dstHost = got.data();
  back.dstPitch = 80;
  back.WidthInBytes = 80;
  back.Height = 10;
  ASSERT_EQ(cuMemcpy2D(&back), CUDA_SUCCESS);
  EXPECT_EQ(got, sent);
  back.srcY = 45;
  EXPECT_EQ(cuMemcpy2D(&back), CUDA_ERROR_INVALID_VALUE);
  EXPECT_EQ(cuArrayDestroy(array), CUDA_SUCCESS);
}

}  // namespace
}  // namespace vram::sim_test
