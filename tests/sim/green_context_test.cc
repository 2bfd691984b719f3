// Green contexts: parts of a card's multiprocessors.
#include <atomic>
#include <vector>

#include "sim_test.h"

namespace vram::sim_test {
namespace {

class GreenContexts : public OneProcess {
 protected:
  static CUdevResource whole(CUdevice device = 0) {
    CUdevResource resource = {};
    EXPECT_EQ(cuDeviceGetDevResource(device, &resource, CU_DEV_RESOURCE_TYPE_SM), CUDA_SUCCESS);
    return resource;
  }
  static CUdevResourceDesc describe(std::vector<CUdevResource> parts) {
    CUdevResourceDesc description = nullptr;
    EXPECT_EQ(
        cuDevResourceGenerateDesc(&description, parts.data(), static_cast<unsigned>(parts.size())),
        CUDA_SUCCESS);
    return description;
  }
  static CUdevResource part(unsigned least) {
    const CUdevResource all = whole();
    CUdevResource made = {};
    unsigned groups = 1;
    EXPECT_EQ(cuDevSmResourceSplitByCount(&made, &groups, &all, nullptr, 0, least), CUDA_SUCCESS);
    return made;
  }
  static CUgreenCtx create(unsigned least = 32, CUdevice device = 0) {
    CUgreenCtx green = nullptr;
    EXPECT_EQ(
        cuGreenCtxCreate(&green, describe({part(least)}), device, CU_GREEN_CTX_DEFAULT_STREAM),
        CUDA_SUCCESS);
    return green;
  }
  static CUcontext context_of(CUgreenCtx green) {
    CUcontext context = nullptr;
    EXPECT_EQ(cuCtxFromGreenCtx(&context, green), CUDA_SUCCESS);
    return context;
  }
};

TEST_F(GreenContexts, MultiprocessorsAreSplitInGroupsOfEight) {
  const CUdevResource all = whole();
  EXPECT_EQ(all.sm.smCount, 132u);
  unsigned groups = 0;
  EXPECT_EQ(cuDevSmResourceSplitByCount(nullptr, &groups, &all, nullptr, 0, 30), CUDA_SUCCESS);
  EXPECT_EQ(groups, 4u);
  std::vector<CUdevResource> parts(10);
  CUdevResource rest = {};
  groups = 3;
  EXPECT_EQ(cuDevSmResourceSplitByCount(parts.data(), &groups, &all, &rest, 0, 30), CUDA_SUCCESS);
  EXPECT_EQ(groups, 3u);
  EXPECT_EQ(parts[2].sm.smCount, 32u);
  EXPECT_EQ(rest.sm.smCount, 36u);
  groups = 10;
  EXPECT_EQ(cuDevSmResourceSplitByCount(parts.data(), &groups, &all, &rest,
                                        CU_DEV_SM_RESOURCE_SPLIT_IGNORE_SM_COSCHEDULING, 66),
            CUDA_SUCCESS);
  EXPECT_EQ(groups, 2u);
  EXPECT_EQ(parts[1].sm.smCount, 66u);
  EXPECT_EQ(rest.type, CU_DEV_RESOURCE_TYPE_INVALID) << "nothing is left over";
}

TEST_F(GreenContexts, WrongResourcesAreRefused) {
  const CUdevResource all = whole();
  CUdevResource made = {};
  unsigned groups = 1;
  EXPECT_EQ(cuDeviceGetDevResource(0, &made, CU_DEV_RESOURCE_TYPE_INVALID),
            CUDA_ERROR_INVALID_RESOURCE_TYPE);
  EXPECT_EQ(cuDeviceGetDevResource(0, nullptr, CU_DEV_RESOURCE_TYPE_SM), CUDA_ERROR_INVALID_VALUE);
  EXPECT_EQ(cuDeviceGetDevResource(2, &made, CU_DEV_RESOURCE_TYPE_SM), CUDA_ERROR_INVALID_DEVICE);
  EXPECT_EQ(cuDevSmResourceSplitByCount(&made, &groups, &all, nullptr, 0, 133),
            CUDA_ERROR_INVALID_RESOURCE_CONFIGURATION);
  EXPECT_EQ(cuDevSmResourceSplitByCount(&made, nullptr, &all, nullptr, 0, 8),
            CUDA_ERROR_INVALID_VALUE);
  EXPECT_EQ(cuDevSmResourceSplitByCount(&made, &groups, &all, nullptr, 4, 8),
            CUDA_ERROR_INVALID_VALUE);
  const CUdevResource none = {};
  EXPECT_EQ(cuDevSmResourceSplitByCount(&made, &groups, &none, nullptr, 0, 8),
            CUDA_ERROR_INVALID_RESOURCE_TYPE);
  const CUdevResource once = part(64);
  EXPECT_EQ(cuDevSmResourceSplitByCount(&made, &groups, &once, nullptr, 0, 8),
            CUDA_ERROR_INVALID_RESOURCE_CONFIGURATION)
      << "split twice";

  CUdevResourceDesc description = nullptr;
  CUdevResource parts[] = {part(8), part(8)};
  EXPECT_EQ(cuDevResourceGenerateDesc(&description, parts, 2),
            CUDA_ERROR_INVALID_RESOURCE_CONFIGURATION)
      << "of two splits";
  EXPECT_EQ(cuDevResourceGenerateDesc(&description, parts, 0), CUDA_ERROR_INVALID_VALUE);
  EXPECT_EQ(cuDevResourceGenerateDesc(nullptr, parts, 1), CUDA_ERROR_INVALID_VALUE);
  EXPECT_EQ(description, nullptr);
}

TEST_F(GreenContexts, CostsWhatAContextCosts) {
  const CUgreenCtx green = create();
  EXPECT_EQ(taken(), kContextBytes);
  EXPECT_EQ(cuGreenCtxDestroy(green), CUDA_SUCCESS);
  EXPECT_EQ(taken(), 0u);
  EXPECT_EQ(cuGreenCtxDestroy(green), CUDA_ERROR_CONTEXT_IS_DESTROYED);
}

TEST_F(GreenContexts, WrongArgumentsAreRefused) {
  const CUdevResourceDesc description = describe({whole()});
  CUgreenCtx green = nullptr;
  EXPECT_EQ(cuGreenCtxCreate(&green, description, 0, 0), CUDA_ERROR_INVALID_VALUE);
  EXPECT_EQ(cuGreenCtxCreate(&green, nullptr, 0, CU_GREEN_CTX_DEFAULT_STREAM),
            CUDA_ERROR_INVALID_VALUE);
  EXPECT_EQ(cuGreenCtxCreate(nullptr, description, 0, CU_GREEN_CTX_DEFAULT_STREAM),
            CUDA_ERROR_INVALID_VALUE);
  EXPECT_EQ(cuGreenCtxCreate(&green, description, 1, CU_GREEN_CTX_DEFAULT_STREAM),
            CUDA_ERROR_INVALID_VALUE);
  EXPECT_EQ(cuGreenCtxCreate(&green, description, 2, CU_GREEN_CTX_DEFAULT_STREAM),
            CUDA_ERROR_INVALID_DEVICE);
  EXPECT_EQ(green, nullptr);
  CUstream stream = nullptr;
  CUcontext context = nullptr;
  EXPECT_EQ(cuGreenCtxDestroy(nullptr), CUDA_ERROR_INVALID_CONTEXT);
  EXPECT_EQ(cuCtxFromGreenCtx(&context, nullptr), CUDA_ERROR_INVALID_CONTEXT);
  EXPECT_EQ(cuGreenCtxStreamCreate(&stream, nullptr, CU_STREAM_NON_BLOCKING, 0),
            CUDA_ERROR_INVALID_CONTEXT);
  green = create();
  EXPECT_EQ(cuGreenCtxStreamCreate(&stream, green, CU_STREAM_DEFAULT, 0), CUDA_ERROR_INVALID_VALUE);
  EXPECT_EQ(cuCtxDestroy(context_of(green)), CUDA_ERROR_INVALID_CONTEXT);
  EXPECT_EQ(cuGreenCtxDestroy(green), CUDA_SUCCESS);
}

TEST_F(GreenContexts, TellsItsPart) {
  const CUgreenCtx green = create(20);
  CUdevResource own = {};
  EXPECT_EQ(cuGreenCtxGetDevResource(green, &own, CU_DEV_RESOURCE_TYPE_SM), CUDA_SUCCESS);
  EXPECT_EQ(own.sm.smCount, 24u);
  EXPECT_EQ(cuCtxGetDevResource(context_of(green), &own, CU_DEV_RESOURCE_TYPE_SM), CUDA_SUCCESS);
  EXPECT_EQ(own.sm.smCount, 24u);
  CUdevResource half = {};
  unsigned groups = 1;
  EXPECT_EQ(cuDevSmResourceSplitByCount(&half, &groups, &own, nullptr, 0, 8), CUDA_SUCCESS)
      << "a context's part can be split again";
  CUcontext primary = nullptr;
  EXPECT_EQ(cuCtxGetCurrent(&primary), CUDA_SUCCESS);
  EXPECT_EQ(cuCtxGetDevResource(primary, &own, CU_DEV_RESOURCE_TYPE_SM), CUDA_SUCCESS);
  EXPECT_EQ(own.sm.smCount, 132u);
  EXPECT_EQ(cuGreenCtxDestroy(green), CUDA_SUCCESS);
}

TEST_F(GreenContexts, HoldsThePrimaryContext) {
  unsigned flags = 0;
  int active = 0;
  const CUgreenCtx green = create();
  EXPECT_EQ(cuDevicePrimaryCtxRelease(0), CUDA_SUCCESS);
  EXPECT_EQ(cuDevicePrimaryCtxGetState(0, &flags, &active), CUDA_SUCCESS);
  EXPECT_EQ(active, 1);
  EXPECT_EQ(cuGreenCtxDestroy(green), CUDA_SUCCESS);
  EXPECT_EQ(cuDevicePrimaryCtxGetState(0, &flags, &active), CUDA_SUCCESS);
  EXPECT_EQ(active, 0);
  ASSERT_EQ(use_primary(), CUDA_SUCCESS);
  ASSERT_EQ(cuStreamCreate(&stream_, CU_STREAM_NON_BLOCKING), CUDA_SUCCESS);
}

TEST_F(GreenContexts, MemoryMadeInItIsThePrimaryContexts) {
  CUcontext primary = nullptr;
  EXPECT_EQ(cuCtxGetCurrent(&primary), CUDA_SUCCESS);
  const CUgreenCtx green = create();
  ASSERT_EQ(cuCtxSetCurrent(context_of(green)), CUDA_SUCCESS);
  CUcontext current = nullptr;
  EXPECT_EQ(cuCtxGetCurrent(&current), CUDA_SUCCESS);
  EXPECT_EQ(current, context_of(green));
  CUdeviceptr block = 0;
  ASSERT_EQ(cuMemAlloc(&block, 64 * kMiB), CUDA_SUCCESS);
  ASSERT_EQ(cuCtxSetCurrent(primary), CUDA_SUCCESS);
  EXPECT_EQ(cuGreenCtxDestroy(green), CUDA_SUCCESS);
  EXPECT_EQ(taken(), 64 * kMiB);
  EXPECT_EQ(cuMemsetD8(block, 1, 64 * kMiB), CUDA_SUCCESS);
  EXPECT_EQ(cuMemFree(block), CUDA_SUCCESS);
}

TEST_F(GreenContexts, AStreamMadeWhileItIsCurrentIsItsOwn) {
  CUcontext primary = nullptr;
  EXPECT_EQ(cuCtxGetCurrent(&primary), CUDA_SUCCESS);
  const CUgreenCtx green = create();
  CUgreenCtx owner = nullptr;
  CUcontext context = nullptr;
  CUstream stream = nullptr;
  ASSERT_EQ(cuCtxSetCurrent(context_of(green)), CUDA_SUCCESS);
  ASSERT_EQ(cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING), CUDA_SUCCESS);
  for (const CUstream one : {stream, CUstream{nullptr}}) {
    EXPECT_EQ(cuStreamGetCtx_v2(one, &context, &owner), CUDA_SUCCESS);
    EXPECT_EQ(owner, green);
    EXPECT_EQ(context, primary);
  }
  EXPECT_EQ(cuStreamDestroy(stream), CUDA_SUCCESS);
  ASSERT_EQ(cuCtxSetCurrent(primary), CUDA_SUCCESS);
  EXPECT_EQ(cuGreenCtxDestroy(green), CUDA_SUCCESS);
}

TEST_F(GreenContexts, WaitingForThePrimaryContextIsWaitingForThemToo) {
  const CUgreenCtx green = create();
  CUstream stream = nullptr;
  ASSERT_EQ(cuGreenCtxStreamCreate(&stream, green, CU_STREAM_NON_BLOCKING, 0), CUDA_SUCCESS);
  std::atomic<bool> done{false};
  const auto work = [](void* flag) {
    ::usleep(50000);
    *static_cast<std::atomic<bool>*>(flag) = true;
  };
  ASSERT_EQ(cuLaunchHostFunc(stream, work, &done), CUDA_SUCCESS);
  EXPECT_EQ(cuCtxSynchronize(), CUDA_SUCCESS);
  EXPECT_TRUE(done);
  EXPECT_EQ(cuStreamDestroy(stream), CUDA_SUCCESS);
  EXPECT_EQ(cuGreenCtxDestroy(green), CUDA_SUCCESS);
}

TEST_F(GreenContexts, AStreamOfOneWorksInIt) {
  const CUgreenCtx green = create();
  const size_t before = taken();
  CUstream stream = nullptr;
  ASSERT_EQ(cuGreenCtxStreamCreate(&stream, green, CU_STREAM_NON_BLOCKING, 0), CUDA_SUCCESS);
  EXPECT_EQ(taken(), before + 512 * kKiB);
  CUgreenCtx owner = nullptr;
  CUcontext context = nullptr;
  EXPECT_EQ(cuStreamGetGreenCtx(stream, &owner), CUDA_SUCCESS);
  EXPECT_EQ(owner, green);
  EXPECT_EQ(cuStreamGetCtx(stream, &context), CUDA_SUCCESS);
  CUcontext primary = nullptr;
  EXPECT_EQ(cuCtxGetCurrent(&primary), CUDA_SUCCESS);
  EXPECT_NE(context, primary);
  EXPECT_EQ(cuStreamGetGreenCtx(stream_, &owner), CUDA_SUCCESS);
  EXPECT_EQ(owner, nullptr);

  CUdeviceptr words = 0;
  unsigned value = 0;
  CUevent event = nullptr;
  ASSERT_EQ(cuMemAlloc(&words, kKiB), CUDA_SUCCESS);
  ASSERT_EQ(cuEventCreate(&event, CU_EVENT_DEFAULT), CUDA_SUCCESS);
  EXPECT_EQ(cuMemsetD32Async(words, 7, 1, stream), CUDA_SUCCESS);
  EXPECT_EQ(cuEventRecord(event, stream), CUDA_SUCCESS);
  EXPECT_EQ(cuStreamWaitEvent(stream_, event, 0), CUDA_SUCCESS);
  EXPECT_EQ(cuMemcpyDtoHAsync(&value, words, sizeof value, stream_), CUDA_SUCCESS);
  EXPECT_EQ(cuStreamSynchronize(stream_), CUDA_SUCCESS);
  EXPECT_EQ(value, 7u);
  EXPECT_EQ(cuEventDestroy(event), CUDA_SUCCESS);
  EXPECT_EQ(cuMemFree(words), CUDA_SUCCESS);
  EXPECT_EQ(cuStreamDestroy(stream), CUDA_SUCCESS);
  EXPECT_EQ(taken(), before);
  EXPECT_EQ(cuGreenCtxDestroy(green), CUDA_SUCCESS);
}

}  // namespace
}  // namespace vram::sim_test
