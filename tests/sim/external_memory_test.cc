// Memory of other interfaces, imported.
#include <fcntl.h>

#include <vector>

#include "foreign.h"
#include "sim_test.h"

namespace vram::sim_test {
namespace {

constexpr size_t kBytes = 64 * kMiB;

class ExternalMemory : public OneProcess {
 protected:
  void SetUp() override {
    OneProcess::SetUp();
    ASSERT_EQ(vram_sim_foreign_memory(0, kBytes, &foreign_, &descriptor_), CUDA_SUCCESS);
  }
  void TearDown() override {
    EXPECT_EQ(vram_sim_free_foreign_memory(foreign_), CUDA_SUCCESS);
    OneProcess::TearDown();
  }
  [[nodiscard]] CUDA_EXTERNAL_MEMORY_HANDLE_DESC description() const {
    CUDA_EXTERNAL_MEMORY_HANDLE_DESC memory = {};
    memory.type = CU_EXTERNAL_MEMORY_HANDLE_TYPE_OPAQUE_FD;
    memory.handle.fd = descriptor_;
    memory.size = kBytes;
    return memory;
  }
  [[nodiscard]] CUexternalMemory import() const {
    const CUDA_EXTERNAL_MEMORY_HANDLE_DESC memory = description();
    CUexternalMemory imported = nullptr;
    EXPECT_EQ(cuImportExternalMemory(&imported, &memory), CUDA_SUCCESS);
    return imported;
  }
  static CUresult map(CUexternalMemory memory, size_t offset, size_t bytes, CUdeviceptr* out) {
    CUDA_EXTERNAL_MEMORY_BUFFER_DESC buffer = {};
    buffer.offset = offset;
    buffer.size = bytes;
    return cuExternalMemoryGetMappedBuffer(out, memory, &buffer);
  }

  uint64_t foreign_ = 0;
  int descriptor_ = -1;
};

TEST_F(ExternalMemory, CountsOnceWhereItWasMade) {
  EXPECT_EQ(taken(), kBytes);
  const CUexternalMemory memory = import();
  EXPECT_EQ(taken(), kBytes);
  EXPECT_EQ(cuDestroyExternalMemory(memory), CUDA_SUCCESS);
  EXPECT_EQ(taken(), kBytes);
}

TEST_F(ExternalMemory, LivesWhileItIsImported) {
  const CUexternalMemory memory = import();
  ASSERT_EQ(vram_sim_free_foreign_memory(foreign_), CUDA_SUCCESS);
  EXPECT_EQ(taken(), kBytes);
  EXPECT_EQ(cuDestroyExternalMemory(memory), CUDA_SUCCESS);
  EXPECT_EQ(taken(), 0u);
  EXPECT_EQ(cuDestroyExternalMemory(memory), CUDA_ERROR_INVALID_HANDLE);
  ASSERT_EQ(vram_sim_foreign_memory(0, kBytes, &foreign_, &descriptor_), CUDA_SUCCESS);
  EXPECT_EQ(::close(descriptor_), 0);
}

TEST_F(ExternalMemory, TheDescriptorBecomesTheDrivers) {
  const CUexternalMemory memory = import();
  EXPECT_NE(::fcntl(descriptor_, F_GETFD), -1);
  EXPECT_EQ(cuDestroyExternalMemory(memory), CUDA_SUCCESS);
  EXPECT_EQ(::fcntl(descriptor_, F_GETFD), -1);
}

TEST_F(ExternalMemory, MappedBuffersAreOrdinaryMemory) {
  const CUexternalMemory memory = import();
  CUdeviceptr whole = 0;
  CUdeviceptr part = 0;
  ASSERT_EQ(map(memory, 0, kBytes, &whole), CUDA_SUCCESS);
  ASSERT_EQ(map(memory, kMiB + 256, 1000, &part), CUDA_SUCCESS);
  EXPECT_EQ(taken(), kBytes);
  CUdeviceptr base = 0;
  size_t bytes = 0;
  EXPECT_EQ(cuMemGetAddressRange(&base, &bytes, part + 10), CUDA_SUCCESS);
  EXPECT_EQ(base, part);
  EXPECT_EQ(bytes, 1000u);
  ASSERT_EQ(cuMemsetD8(part, 0x5a, 1000), CUDA_SUCCESS);
  std::vector<unsigned char> host(1000);
  ASSERT_EQ(cuMemcpyDtoH(host.data(), whole + kMiB + 256, host.size()), CUDA_SUCCESS);
  EXPECT_EQ(host, std::vector<unsigned char>(1000, 0x5a)) << "both are the same memory";
  EXPECT_EQ(cuMemFree(part + 8), CUDA_ERROR_INVALID_VALUE);
  EXPECT_EQ(cuMemFree(part), CUDA_SUCCESS);
  EXPECT_EQ(cuMemFree(part), CUDA_ERROR_INVALID_VALUE);
  EXPECT_EQ(cuMemGetAddressRange(&base, &bytes, part), CUDA_ERROR_NOT_FOUND);
  EXPECT_EQ(cuDestroyExternalMemory(memory), CUDA_SUCCESS);
  EXPECT_EQ(cuMemFree(whole), CUDA_SUCCESS) << "a buffer is freed by itself";
}

TEST_F(ExternalMemory, GoesWithItsContext) {
  CUcontext context = nullptr;
  ASSERT_EQ(cuCtxCreate(&context, nullptr, 0, 0), CUDA_SUCCESS);
  const CUexternalMemory memory = import();
  CUdeviceptr buffer = 0;
  ASSERT_EQ(map(memory, 0, kBytes, &buffer), CUDA_SUCCESS);
  ASSERT_EQ(cuCtxDestroy(context), CUDA_SUCCESS);
  EXPECT_EQ(cuDestroyExternalMemory(memory), CUDA_ERROR_INVALID_HANDLE);
  EXPECT_EQ(cuMemFree(buffer), CUDA_ERROR_INVALID_VALUE);
}

TEST_F(ExternalMemory, WrongArgumentsAreRefusedAndTakeNothing) {
  CUexternalMemory memory = nullptr;
  const CUDA_EXTERNAL_MEMORY_HANDLE_DESC right = description();
  EXPECT_EQ(cuImportExternalMemory(nullptr, &right), CUDA_ERROR_INVALID_VALUE);
  EXPECT_EQ(cuImportExternalMemory(&memory, nullptr), CUDA_ERROR_INVALID_VALUE);
  CUDA_EXTERNAL_MEMORY_HANDLE_DESC wrong = right;
  wrong.type = static_cast<CUexternalMemoryHandleType>(0);
  EXPECT_EQ(cuImportExternalMemory(&memory, &wrong), CUDA_ERROR_INVALID_VALUE);
  wrong.type = CU_EXTERNAL_MEMORY_HANDLE_TYPE_OPAQUE_WIN32;
  EXPECT_EQ(cuImportExternalMemory(&memory, &wrong), CUDA_ERROR_NOT_SUPPORTED);
  wrong = right;
  wrong.flags = 2;
  EXPECT_EQ(cuImportExternalMemory(&memory, &wrong), CUDA_ERROR_INVALID_VALUE);
  for (const unsigned long long size : {0ull, kBytes + 1ull}) {
    wrong = right;
    wrong.size = size;
    EXPECT_EQ(cuImportExternalMemory(&memory, &wrong), CUDA_ERROR_INVALID_VALUE);
  }
  for (const int descriptor : {-1, STDERR_FILENO}) {
    wrong = right;
    wrong.handle.fd = descriptor;
    EXPECT_EQ(cuImportExternalMemory(&memory, &wrong), CUDA_ERROR_INVALID_HANDLE);
  }
  EXPECT_EQ(memory, nullptr);
  EXPECT_EQ(cuDestroyExternalMemory(nullptr), CUDA_ERROR_INVALID_HANDLE);

  memory = import();
  CUdeviceptr buffer = 0;
  EXPECT_EQ(map(memory, 0, 0, &buffer), CUDA_ERROR_INVALID_VALUE);
  EXPECT_EQ(map(memory, 0, kBytes + 1, &buffer), CUDA_ERROR_INVALID_VALUE);
  EXPECT_EQ(map(memory, kBytes, 1, &buffer), CUDA_ERROR_INVALID_VALUE);
  EXPECT_EQ(map(nullptr, 0, 1, &buffer), CUDA_ERROR_INVALID_HANDLE);
  EXPECT_EQ(map(memory, 0, 1, nullptr), CUDA_ERROR_INVALID_VALUE);
  EXPECT_EQ(buffer, 0u);
  EXPECT_EQ(cuDestroyExternalMemory(memory), CUDA_SUCCESS);
}

TEST_F(ExternalMemory, OfAnotherCardIsRefused) {
  ASSERT_EQ(use_primary(1), CUDA_SUCCESS);
  const CUDA_EXTERNAL_MEMORY_HANDLE_DESC memory = description();
  CUexternalMemory imported = nullptr;
  EXPECT_EQ(cuImportExternalMemory(&imported, &memory), CUDA_ERROR_INVALID_VALUE);
  EXPECT_EQ(cuDevicePrimaryCtxRelease(1), CUDA_SUCCESS);
  ASSERT_EQ(use_primary(0), CUDA_SUCCESS);
  EXPECT_EQ(cuDevicePrimaryCtxRelease(0), CUDA_SUCCESS);
}

}  // namespace
}  // namespace vram::sim_test
