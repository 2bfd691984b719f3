// Contexts and their limits, finding functions, naming errors.
#include <dlfcn.h>

#include <thread>
#include <vector>

#include "sim_test.h"

namespace vram::sim_test {
namespace {

class Contexts : public OneProcess {};

TEST_F(Contexts, ASecondContextCostsAsMuchAsTheFirst) {
  CUcontext context = nullptr;
  ASSERT_EQ(cuCtxCreate(&context, nullptr, 0, 0), CUDA_SUCCESS);
  EXPECT_EQ(taken(), kContextBytes);
  EXPECT_EQ(cuCtxDestroy(context), CUDA_SUCCESS);
  EXPECT_EQ(taken(), 0u);
  EXPECT_EQ(cuCtxDestroy(context), CUDA_ERROR_CONTEXT_IS_DESTROYED);
}

TEST_F(Contexts, AContextTakesItsMemoryWithIt) {
  CUcontext context = nullptr;
  ASSERT_EQ(cuCtxCreate(&context, nullptr, 0, 0), CUDA_SUCCESS);
  CUdeviceptr block = 0;
  ASSERT_EQ(cuMemAlloc(&block, kGiB), CUDA_SUCCESS);
  ASSERT_EQ(cuMemAlloc(&block, 100), CUDA_SUCCESS);
  EXPECT_EQ(cuCtxDestroy(context), CUDA_SUCCESS);
  EXPECT_EQ(taken(), 0u);
  EXPECT_EQ(cuMemFree(block), CUDA_ERROR_INVALID_VALUE);
}

TEST_F(Contexts, AStackLimitTakesItsMemoryAtOnceAndGivesItBack) {
  ASSERT_EQ(cuCtxSetLimit(CU_LIMIT_STACK_SIZE, 65536), CUDA_SUCCESS);
  EXPECT_EQ(taken(), 16632 * kMiB);
  ASSERT_EQ(cuCtxSetLimit(CU_LIMIT_STACK_SIZE, 1024), CUDA_SUCCESS);
  EXPECT_EQ(taken(), 0u);
  ASSERT_EQ(cuCtxSetLimit(CU_LIMIT_MALLOC_HEAP_SIZE, kGiB), CUDA_SUCCESS);
  EXPECT_EQ(taken(), 0u);
  size_t heap = 0;
  EXPECT_EQ(cuCtxGetLimit(&heap, CU_LIMIT_MALLOC_HEAP_SIZE), CUDA_SUCCESS);
  EXPECT_EQ(heap, kGiB);
}

TEST_F(Contexts, AStackLimitOverTheCardIsOutOfMemory) {
  EXPECT_EQ(cuCtxSetLimit(CU_LIMIT_STACK_SIZE, 131072), CUDA_ERROR_OUT_OF_MEMORY);
  EXPECT_EQ(taken(), 0u);
  size_t stack = 0;
  EXPECT_EQ(cuCtxGetLimit(&stack, CU_LIMIT_STACK_SIZE), CUDA_SUCCESS);
  EXPECT_EQ(stack, 1024u);
}

TEST_F(Contexts, SixtyFourStreamsCost32MiB) {
  std::vector<CUstream> streams(64);
  for (CUstream& stream : streams) ASSERT_EQ(cuStreamCreate(&stream, 0), CUDA_SUCCESS);
  EXPECT_EQ(taken(), 32 * kMiB);
  for (const CUstream stream : streams) ASSERT_EQ(cuStreamDestroy(stream), CUDA_SUCCESS);
}

TEST_F(Contexts, AThreadWithoutAContextIsToldSo) {
  std::thread([] {
    CUdeviceptr block = 0;
    EXPECT_EQ(cuMemAlloc(&block, 1), CUDA_ERROR_INVALID_CONTEXT);
    CUcontext context = nullptr;
    EXPECT_EQ(cuCtxGetCurrent(&context), CUDA_SUCCESS);
    EXPECT_EQ(context, nullptr);
    CUdevice device = 0;
    EXPECT_EQ(cuCtxGetDevice(&device), CUDA_ERROR_INVALID_CONTEXT);
    EXPECT_EQ(cuCtxPopCurrent(&context), CUDA_ERROR_INVALID_CONTEXT);
  }).join();
}

TEST_F(Contexts, ThePrimaryContextIsCounted) {
  CUcontext first = nullptr;
  ASSERT_EQ(cuDevicePrimaryCtxRetain(&first, 1), CUDA_SUCCESS);
  CUcontext second = nullptr;
  ASSERT_EQ(cuDevicePrimaryCtxRetain(&second, 1), CUDA_SUCCESS);
  EXPECT_EQ(first, second);
  unsigned flags = 0;
  int active = 0;
  EXPECT_EQ(cuDevicePrimaryCtxRelease(1), CUDA_SUCCESS);
  EXPECT_EQ(cuDevicePrimaryCtxGetState(1, &flags, &active), CUDA_SUCCESS);
  EXPECT_EQ(active, 1);
  EXPECT_EQ(cuDevicePrimaryCtxRelease(1), CUDA_SUCCESS);
  EXPECT_EQ(cuDevicePrimaryCtxGetState(1, &flags, &active), CUDA_SUCCESS);
  EXPECT_EQ(active, 0);
  EXPECT_EQ(cuDevicePrimaryCtxRelease(1), CUDA_ERROR_INVALID_CONTEXT);
  EXPECT_EQ(used_by(::getpid(), 1), 0u);
}

void* lookup(const char* name, int version, cuuint64_t flags,
             CUdriverProcAddressQueryResult* status = nullptr) {
  void* function = nullptr;
  CUdriverProcAddressQueryResult ignored = CU_GET_PROC_ADDRESS_SUCCESS;
  EXPECT_EQ(cuGetProcAddress(name, &function, version, flags, status ? status : &ignored),
            CUDA_SUCCESS);
  return function;
}

void* exported(const char* name) { return ::dlsym(RTLD_DEFAULT, name); }

TEST(Lookup, GivesTheVersionThatWasCurrent) {
  EXPECT_EQ(lookup("cuMemAlloc", 2000, 0), exported("cuMemAlloc"));
  EXPECT_EQ(lookup("cuMemAlloc", 3020, 0), exported("cuMemAlloc_v2"));
  EXPECT_EQ(lookup("cuMemAlloc", 13000, 0), exported("cuMemAlloc_v2"));
  EXPECT_EQ(lookup("cuGetProcAddress", 11030, 0), exported("cuGetProcAddress"));
  EXPECT_EQ(lookup("cuGetProcAddress", 12000, 0), exported("cuGetProcAddress_v2"));
}

TEST(Lookup, GivesThePerThreadVariantWhereThereIsOne) {
  EXPECT_EQ(lookup("cuMemcpyHtoD", 13000, 2), exported("cuMemcpyHtoD_v2_ptds"));
  EXPECT_EQ(lookup("cuMemcpyHtoD", 13000, 1), exported("cuMemcpyHtoD_v2"));
  EXPECT_EQ(lookup("cuLaunchKernel", 13000, 2), exported("cuLaunchKernel_ptsz"));
  EXPECT_EQ(lookup("cuMemAlloc", 13000, 2), exported("cuMemAlloc_v2"));
}

TEST(Lookup, SaysWhyItFindsNothing) {
  CUdriverProcAddressQueryResult status = CU_GET_PROC_ADDRESS_SUCCESS;
  EXPECT_EQ(lookup("cuMemAllocAsync", 10000, 0, &status), nullptr);
  EXPECT_EQ(status, CU_GET_PROC_ADDRESS_VERSION_NOT_SUFFICIENT);
  EXPECT_EQ(lookup("cuNoSuchFunction", 13000, 0, &status), nullptr);
  EXPECT_EQ(status, CU_GET_PROC_ADDRESS_SYMBOL_NOT_FOUND);
}

TEST(Errors, HaveNames) {
  const char* text = nullptr;
  ASSERT_EQ(cuGetErrorName(CUDA_ERROR_OUT_OF_MEMORY, &text), CUDA_SUCCESS);
  EXPECT_STREQ(text, "CUDA_ERROR_OUT_OF_MEMORY");
  ASSERT_EQ(cuGetErrorString(CUDA_ERROR_OUT_OF_MEMORY, &text), CUDA_SUCCESS);
  EXPECT_STREQ(text, "out of memory");
  EXPECT_EQ(cuGetErrorName(static_cast<CUresult>(998), &text), CUDA_ERROR_INVALID_VALUE);
}

}  // namespace
}  // namespace vram::sim_test
