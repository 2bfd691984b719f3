// Injected durations of work on the card.
#include <chrono>
#include <filesystem>
#include <fstream>

#include "execution_test.h"

namespace vram::sim_test {
namespace {

using Clock = std::chrono::steady_clock;

double ms_since(Clock::time_point begin) {
  return std::chrono::duration<double, std::milli>(Clock::now() - begin).count();
}

class CostFile {
 public:
  explicit CostFile(const char* lines)
      : path_(std::filesystem::temp_directory_path() /
              ("vram-costs-" + std::to_string(::getpid()))) {
    std::ofstream(path_) << lines;
    ::setenv("VRAM_SIM_COSTS", path_.c_str(), 1);
  }
  ~CostFile() {
    std::filesystem::remove(path_);
    ::unsetenv("VRAM_SIM_COSTS");
  }
  CostFile(const CostFile&) = delete;
  CostFile& operator=(const CostFile&) = delete;

 private:
  std::filesystem::path path_;
};

TEST(CardTime, WorkTakesItsTimeOnTheCardAndNotInTheCall) {
  const Machine machine;
  const CostFile costs("card.kernel 60000000\n");
  const pid_t child = start_child([] {
    if (use_primary() != CUDA_SUCCESS) return 1;
    CUmodule module = nullptr;
    CUfunction nothing = nullptr;
    if (cuModuleLoadData(&module, kPtx) != CUDA_SUCCESS) return 2;
    if (cuModuleGetFunction(&nothing, module, "vram_spin_ns") != CUDA_SUCCESS) return 3;
    uint64_t ns = 0;
    void* arguments[] = {&ns};
    const auto begin = Clock::now();
    if (cuLaunchKernel(nothing, 1, 1, 1, 1, 1, 1, 0, nullptr, arguments, nullptr) != CUDA_SUCCESS) {
      return 4;
    }
    if (cuStreamQuery(nullptr) != CUDA_ERROR_NOT_READY) return 5;
    if (cuCtxSynchronize() != CUDA_SUCCESS) return 6;
    return ms_since(begin) >= 60 ? 0 : 7;
  });
  EXPECT_EQ(exit_status(child), 0);
}

// Two streams share the engine of a direction; the other direction has its own.
TEST(CardTime, CopiesOfOneDirectionTakeTurns) {
  const Machine machine;
  const CostFile costs("card.to_card 300000000\ncard.to_host 300000000\n");
  const pid_t child = start_child([] {
    if (use_primary() != CUDA_SUCCESS) return 1;
    CUdeviceptr block = 0;
    void* pinned = nullptr;
    CUstream first = nullptr;
    CUstream second = nullptr;
    if (cuMemAlloc(&block, kMiB) != CUDA_SUCCESS) return 2;
    if (cuMemAllocHost(&pinned, kMiB) != CUDA_SUCCESS) return 3;
    if (cuStreamCreate(&first, 1) != CUDA_SUCCESS || cuStreamCreate(&second, 1) != CUDA_SUCCESS) {
      return 4;
    }
    auto begin = Clock::now();
    if (cuMemcpyHtoDAsync(block, pinned, 64, first) != CUDA_SUCCESS) return 5;
    if (cuMemcpyHtoDAsync(block + 64, pinned, 64, second) != CUDA_SUCCESS) return 6;
    if (cuCtxSynchronize() != CUDA_SUCCESS || ms_since(begin) < 600) return 7;
    begin = Clock::now();
    if (cuMemcpyHtoDAsync(block, pinned, 64, first) != CUDA_SUCCESS) return 8;
    if (cuMemcpyDtoHAsync(static_cast<char*>(pinned) + 64, block + 64, 64, second) != CUDA_SUCCESS)
      return 9;
    if (cuCtxSynchronize() != CUDA_SUCCESS) return 10;
    return ms_since(begin) < 590 ? 0 : 11;
  });
  EXPECT_EQ(exit_status(child), 0);
}

}  // namespace
}  // namespace vram::sim_test
