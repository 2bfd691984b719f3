// What the tests of streams, kernels and graphs share: a module of the kernels that compute.
#pragma once

#include <array>
#include <vector>

#include "sim_test.h"

namespace vram::sim_test {

inline constexpr const char* kPtx = R"(.version 8.0
.target sm_90
.address_size 64
.global .align 4 .u32 answer = 42;
.visible .global .align 8 .b8 table[16] = {1, 2, 3, 4};
.visible .entry vectorAdd(.param .u64 a, .param .u64 b, .param .u64 out, .param .u32 n) { ret; }
.visible .entry vram_spin_ns(.param .u64 ns) { ret; }
.visible .entry vram_fill_u32(.param .u64 out, .param .u64 n, .param .u32 value) { ret; }
.visible .entry nothing(.param .u8 a, .param .align 8 .b8 b[24], .param .u16 c) { ret; }
.visible .entry greedy(.param .u64 out) { .local .align 16 .b8 depot[65536]; ret; }
)";

inline constexpr uint64_t kMillisecond = 1000000;

class Execution : public OneProcess {
 protected:
  void SetUp() override {
    OneProcess::SetUp();
    ASSERT_EQ(cuModuleLoadData(&module_, kPtx), CUDA_SUCCESS);
    ASSERT_EQ(cuMemAlloc(&words_, kMiB), CUDA_SUCCESS);
    ASSERT_EQ(cuStreamCreate(&other_, CU_STREAM_NON_BLOCKING), CUDA_SUCCESS);
  }
  void TearDown() override {
    EXPECT_EQ(cuStreamDestroy(other_), CUDA_SUCCESS);
    EXPECT_EQ(cuMemFree(words_), CUDA_SUCCESS);
    EXPECT_EQ(cuModuleUnload(module_), CUDA_SUCCESS);
    OneProcess::TearDown();
  }
  [[nodiscard]] CUfunction function(const char* name) const {
    CUfunction found = nullptr;
    EXPECT_EQ(cuModuleGetFunction(&found, module_, name), CUDA_SUCCESS) << name;
    return found;
  }
  CUresult launch(const char* name, std::vector<void*> arguments, CUstream stream) const {
    return cuLaunchKernel(function(name), 1, 1, 1, 1, 1, 1, 0, stream, arguments.data(), nullptr);
  }
  CUresult spin(uint64_t ns, CUstream stream) const {
    return launch("vram_spin_ns", {&ns}, stream);
  }
  CUresult fill(CUdeviceptr out, uint64_t count, uint32_t value, CUstream stream) const {
    return launch("vram_fill_u32", {&out, &count, &value}, stream);
  }
  // The first word of the shared allocation, once `stream` has come so far.
  [[nodiscard]] uint32_t word(CUstream stream) const {
    uint32_t value = 0;
    EXPECT_EQ(cuMemcpyDtoHAsync(&value, words_, sizeof(value), stream), CUDA_SUCCESS);
    EXPECT_EQ(cuStreamSynchronize(stream), CUDA_SUCCESS);
    return value;
  }

  CUmodule module_ = nullptr;
  CUdeviceptr words_ = 0;
  CUstream other_ = nullptr;
};

}  // namespace vram::sim_test
