// Modules, kernels and copies: what computes, what is refused, what a context remembers.
#include <cstring>
#include <fstream>
#include <numeric>

#include "execution_test.h"

namespace vram::sim_test {
namespace {

using Kernels = Execution;

TEST_F(Kernels, AddTwoVectors) {
  int count = 1000;
  const size_t bytes = static_cast<size_t>(count) * sizeof(float);
  std::vector<float> host(1000);
  std::iota(host.begin(), host.end(), 0.0f);
  CUdeviceptr left = words_;
  CUdeviceptr right = words_ + bytes;
  CUdeviceptr sum = words_ + 2 * bytes;
  ASSERT_EQ(cuMemcpyHtoD(left, host.data(), bytes), CUDA_SUCCESS);
  ASSERT_EQ(cuMemcpyHtoD(right, host.data(), bytes), CUDA_SUCCESS);
  void* arguments[] = {&left, &right, &sum, &count};
  ASSERT_EQ(
      cuLaunchKernel(function("vectorAdd"), 4, 1, 1, 256, 1, 1, 0, nullptr, arguments, nullptr),
      CUDA_SUCCESS);
  std::vector<float> result(1000);
  ASSERT_EQ(cuMemcpyDtoH(result.data(), sum, bytes), CUDA_SUCCESS);
  for (size_t i = 0; i < result.size(); ++i) ASSERT_EQ(result[i], 2 * host[i]) << i;
}

TEST_F(Kernels, TakeTheirArgumentsFromABufferToo) {
  struct {
    CUdeviceptr out;
    uint64_t count;
    uint32_t value;
  } packed{words_, 1, 77};
  size_t bytes = sizeof(packed);
  void* extra[] = {CU_LAUNCH_PARAM_BUFFER_POINTER, &packed, CU_LAUNCH_PARAM_BUFFER_SIZE, &bytes,
                   CU_LAUNCH_PARAM_END};
  ASSERT_EQ(cuLaunchKernel(function("vram_fill_u32"), 1, 1, 1, 1, 1, 1, 0, stream_, nullptr, extra),
            CUDA_SUCCESS);
  EXPECT_EQ(word(stream_), 77u);
}

TEST_F(Kernels, TellTheirParametersAsDeclared) {
  size_t offset = 0;
  size_t bytes = 0;
  const CUfunction nothing = function("nothing");
  ASSERT_EQ(cuFuncGetParamInfo(nothing, 1, &offset, &bytes), CUDA_SUCCESS);
  EXPECT_EQ(offset, 8u);
  EXPECT_EQ(bytes, 24u);
  ASSERT_EQ(cuFuncGetParamInfo(nothing, 2, &offset, &bytes), CUDA_SUCCESS);
  EXPECT_EQ(offset, 32u);
  EXPECT_EQ(bytes, 2u);
  EXPECT_EQ(cuFuncGetParamInfo(nothing, 3, &offset, &bytes), CUDA_ERROR_INVALID_VALUE);
}

TEST_F(Kernels, AreRefusedOutsideTheLimitsOfTheCard) {
  const CUfunction spin = function("vram_spin_ns");
  uint64_t ns = 0;
  void* arguments[] = {&ns};
  const auto launch = [&](unsigned grid_y, unsigned block_x, unsigned block_z, unsigned shared) {
    return cuLaunchKernel(spin, 1, grid_y, 1, block_x, 1, block_z, shared, stream_, arguments,
                          nullptr);
  };
  EXPECT_EQ(launch(0, 1, 1, 0), CUDA_ERROR_INVALID_VALUE);
  EXPECT_EQ(launch(65536, 1, 1, 0), CUDA_ERROR_INVALID_VALUE);
  EXPECT_EQ(launch(1, 1025, 1, 0), CUDA_ERROR_INVALID_VALUE);
  EXPECT_EQ(launch(1, 1, 65, 0), CUDA_ERROR_INVALID_VALUE);
  EXPECT_EQ(launch(1, 1, 1, 49153), CUDA_ERROR_INVALID_VALUE);
  ASSERT_EQ(cuFuncSetAttribute(spin, CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES, 65536),
            CUDA_SUCCESS);
  EXPECT_EQ(launch(1, 1, 1, 49153), CUDA_SUCCESS);
  EXPECT_EQ(cuLaunchKernel(spin, 1, 1, 1, 1, 1, 1, 0, stream_, nullptr, nullptr),
            CUDA_ERROR_INVALID_VALUE)
      << "no arguments";
  EXPECT_EQ(cuStreamSynchronize(stream_), CUDA_SUCCESS);
}

TEST_F(Kernels, UnknownNamesAreNotFound) {
  CUfunction found = nullptr;
  EXPECT_EQ(cuModuleGetFunction(&found, module_, "absent"), CUDA_ERROR_NOT_FOUND);
  CUmodule module = nullptr;
  EXPECT_EQ(cuModuleLoadData(&module, "no image"), CUDA_ERROR_INVALID_IMAGE);
}

TEST_F(Kernels, VariablesHaveTheirFirstValues) {
  CUdeviceptr address = 0;
  size_t bytes = 0;
  ASSERT_EQ(cuModuleGetGlobal(&address, &bytes, module_, "answer"), CUDA_SUCCESS);
  EXPECT_EQ(bytes, 4u);
  uint32_t answer = 0;
  ASSERT_EQ(cuMemcpyDtoH(&answer, address, bytes), CUDA_SUCCESS);
  EXPECT_EQ(answer, 42u);
  ASSERT_EQ(cuModuleGetGlobal(&address, &bytes, module_, "table"), CUDA_SUCCESS);
  std::array<uint8_t, 16> table{};
  ASSERT_EQ(bytes, table.size());
  ASSERT_EQ(cuMemcpyDtoH(table.data(), address, bytes), CUDA_SUCCESS);
  EXPECT_EQ(table[3], 4);
  EXPECT_EQ(table[4], 0);
}

TEST_F(Kernels, AModuleHoldsItsVariablesUntilItIsUnloaded) {
  const size_t before = used();
  CUmodule module = nullptr;
  ASSERT_EQ(cuModuleLoadData(&module,
                             ".version 8.0\n.target sm_90\n.address_size 64\n"
                             ".visible .global .align 4 .b8 big[50000000];\n"),
            CUDA_SUCCESS);
  EXPECT_EQ(used() - before, 48 * kMiB);
  ASSERT_EQ(cuModuleUnload(module), CUDA_SUCCESS);
  EXPECT_EQ(used(), before);
}

TEST_F(Kernels, LocalMemoryIsTakenAtTheFirstLaunchAndStays) {
  const size_t before = used();
  CUdeviceptr out = words_;
  CUcontext context = nullptr;
  // In a context of its own: what is taken stays as long as the context.
  ASSERT_EQ(cuCtxCreate(&context, nullptr, 0, 0), CUDA_SUCCESS);
  CUmodule module = nullptr;
  ASSERT_EQ(cuModuleLoadData(&module, kPtx), CUDA_SUCCESS);
  CUfunction greedy = nullptr;
  ASSERT_EQ(cuModuleGetFunction(&greedy, module, "greedy"), CUDA_SUCCESS);
  const size_t loaded = used();
  void* arguments[] = {&out};
  for (int i = 0; i < 2; ++i) {
    ASSERT_EQ(cuLaunchKernel(greedy, 1, 1, 1, 1, 1, 1, 0, nullptr, arguments, nullptr),
              CUDA_SUCCESS);
    EXPECT_EQ(used() - loaded, 16632 * kMiB);
  }
  ASSERT_EQ(cuModuleUnload(module), CUDA_SUCCESS);
  EXPECT_GE(used() - before, 16632 * kMiB);
  ASSERT_EQ(cuCtxDestroy(context), CUDA_SUCCESS);
  EXPECT_EQ(used(), before);
}

TEST_F(Kernels, LibrariesGiveKernelsToEveryContext) {
  CUlibrary library = nullptr;
  ASSERT_EQ(cuLibraryLoadData(&library, kPtx, nullptr, nullptr, 0, nullptr, nullptr, 0),
            CUDA_SUCCESS);
  CUkernel kernel = nullptr;
  ASSERT_EQ(cuLibraryGetKernel(&kernel, library, "vram_fill_u32"), CUDA_SUCCESS);
  unsigned count = 0;
  ASSERT_EQ(cuLibraryGetKernelCount(&count, library), CUDA_SUCCESS);
  EXPECT_EQ(count, 5u);
  CUdeviceptr out = words_;
  uint64_t words = 1;
  uint32_t value = 5;
  void* arguments[] = {&out, &words, &value};
  ASSERT_EQ(cuLaunchKernel(reinterpret_cast<CUfunction>(kernel), 1, 1, 1, 1, 1, 1, 0, stream_,
                           arguments, nullptr),
            CUDA_SUCCESS);
  EXPECT_EQ(word(stream_), 5u);
  EXPECT_EQ(cuLibraryUnload(library), CUDA_SUCCESS);
  EXPECT_EQ(cuLibraryUnload(library), CUDA_ERROR_INVALID_HANDLE);
}

TEST_F(Kernels, LinkedPtxCanBeLoaded) {
  CUlinkState link = nullptr;
  ASSERT_EQ(cuLinkCreate(0, nullptr, nullptr, &link), CUDA_SUCCESS);
  ASSERT_EQ(cuLinkAddData(link, CU_JIT_INPUT_PTX, const_cast<char*>(kPtx), std::strlen(kPtx) + 1,
                          "kernels", 0, nullptr, nullptr),
            CUDA_SUCCESS);
  void* image = nullptr;
  size_t bytes = 0;
  ASSERT_EQ(cuLinkComplete(link, &image, &bytes), CUDA_SUCCESS);
  CUmodule module = nullptr;
  ASSERT_EQ(cuModuleLoadData(&module, image), CUDA_SUCCESS);
  ASSERT_EQ(cuLinkDestroy(link), CUDA_SUCCESS);
  CUfunction found = nullptr;
  EXPECT_EQ(cuModuleGetFunction(&found, module, "nothing"), CUDA_SUCCESS);
  EXPECT_EQ(cuModuleUnload(module), CUDA_SUCCESS);
}

TEST_F(Kernels, OccupancyFollowsFromThreadsAndSharedMemory) {
  int blocks = 0;
  const CUfunction spin = function("vram_spin_ns");
  ASSERT_EQ(cuOccupancyMaxActiveBlocksPerMultiprocessor(&blocks, spin, 1024, 0), CUDA_SUCCESS);
  EXPECT_EQ(blocks, 2);
  ASSERT_EQ(cuOccupancyMaxActiveBlocksPerMultiprocessor(&blocks, spin, 32, 0), CUDA_SUCCESS);
  EXPECT_EQ(blocks, 32);
  ASSERT_EQ(cuOccupancyMaxActiveBlocksPerMultiprocessor(&blocks, spin, 32, 100000), CUDA_SUCCESS);
  EXPECT_EQ(blocks, 2);
}

TEST_F(Kernels, CopiesMoveRowsOfAPitch) {
  std::array<uint8_t, 32> host{};
  std::iota(host.begin(), host.end(), uint8_t{0});
  CUDA_MEMCPY2D copy{};
  copy.srcMemoryType = CU_MEMORYTYPE_HOST;
  copy.srcHost = host.data();
  copy.srcPitch = 8;
  copy.srcXInBytes = 1;
  copy.dstMemoryType = CU_MEMORYTYPE_DEVICE;
  copy.dstDevice = words_;
  copy.dstPitch = 512;
  copy.WidthInBytes = 4;
  copy.Height = 4;
  ASSERT_EQ(cuMemcpy2D(&copy), CUDA_SUCCESS);
  std::array<uint8_t, 4> row{};
  ASSERT_EQ(cuMemcpyDtoH(row.data(), words_ + 512 * 3, row.size()), CUDA_SUCCESS);
  EXPECT_EQ(row, (std::array<uint8_t, 4>{25, 26, 27, 28}));
  copy.dstPitch = 3;
  EXPECT_EQ(cuMemcpy2D(&copy), CUDA_ERROR_INVALID_VALUE);
}

TEST_F(Kernels, FillsWriteEveryElementSize) {
  ASSERT_EQ(cuMemsetD8(words_, 0xab, 64), CUDA_SUCCESS);
  ASSERT_EQ(cuMemsetD16(words_, 0x1234, 2), CUDA_SUCCESS);
  ASSERT_EQ(cuMemsetD2D32(words_ + 16, 16, 0xdeadbeef, 1, 2), CUDA_SUCCESS);
  std::array<uint32_t, 16> host{};
  ASSERT_EQ(cuMemcpyDtoH(host.data(), words_, sizeof(host)), CUDA_SUCCESS);
  EXPECT_EQ(host[0], 0x12341234u);
  EXPECT_EQ(host[1], 0xababababu);
  EXPECT_EQ(host[4], 0xdeadbeefu);
  EXPECT_EQ(host[5], 0xababababu);
  EXPECT_EQ(host[8], 0xdeadbeefu);
  EXPECT_EQ(cuMemsetD32(words_ + 2, 0, 1), CUDA_ERROR_INVALID_VALUE) << "unaligned";
}

// More than the hosts of these tests have.
TEST_F(Kernels, ClearingMemoryTakesNoneOfTheHosts) {
  CUdeviceptr block = 0;
  ASSERT_EQ(cuMemAlloc(&block, 20 * kGiB), CUDA_SUCCESS);
  ASSERT_EQ(cuMemsetD8(block + kGiB, 1, 8192), CUDA_SUCCESS);
  ASSERT_EQ(cuMemsetD8(block + 100, 0, 20 * kGiB - 200), CUDA_SUCCESS);
  std::array<uint8_t, 8192> host{};
  host.fill(1);
  ASSERT_EQ(cuMemcpyDtoH(host.data(), block + kGiB, host.size()), CUDA_SUCCESS);
  EXPECT_EQ(host, (std::array<uint8_t, 8192>{}));
  std::ifstream status("/proc/self/status");
  std::string word;
  size_t shared_kib = 0;
  while (status >> word && word != "RssShmem:") {
  }
  ASSERT_TRUE(status >> shared_kib);
  EXPECT_LT(shared_kib, 100u * 1024);
  EXPECT_EQ(cuMemFree(block), CUDA_SUCCESS);
}

// A pinned source belongs to the copy until it has run; one from pageable memory has been read.
TEST_F(Kernels, AnAsynchronousCopyReadsPinnedMemoryWhenItRuns) {
  void* pinned = nullptr;
  ASSERT_EQ(cuMemAllocHost(&pinned, 4), CUDA_SUCCESS);
  auto* source = static_cast<uint32_t*>(pinned);
  *source = 1;
  uint32_t pageable = 1;
  ASSERT_EQ(spin(50 * kMillisecond, stream_), CUDA_SUCCESS);
  ASSERT_EQ(cuMemcpyHtoDAsync(words_, source, 4, stream_), CUDA_SUCCESS);
  ASSERT_EQ(cuMemcpyHtoDAsync(words_ + 4, &pageable, 4, stream_), CUDA_SUCCESS);
  *source = 2;
  pageable = 2;
  std::array<uint32_t, 2> host{};
  ASSERT_EQ(cuMemcpyDtoHAsync(host.data(), words_, 8, stream_), CUDA_SUCCESS);
  EXPECT_EQ(host[0], 2u);
  EXPECT_EQ(host[1], 1u);
  EXPECT_EQ(cuMemFreeHost(pinned), CUDA_SUCCESS);
}

TEST_F(Kernels, CopiesBeyondAnAllocationAreRefused) {
  std::vector<char> host(2 * kMiB);
  EXPECT_EQ(cuMemcpyHtoD(words_, host.data(), kMiB), CUDA_SUCCESS);
  EXPECT_EQ(cuMemcpyHtoD(words_ + kGiB, host.data(), 4), CUDA_ERROR_INVALID_VALUE);
  EXPECT_EQ(cuMemsetD8(words_ + kGiB, 0, 4), CUDA_ERROR_INVALID_VALUE);
  EXPECT_EQ(cuCtxSynchronize(), CUDA_SUCCESS);
}

}  // namespace
}  // namespace vram::sim_test
