// What the tests of the simulated GPU share: a machine of their own, and what the process uses of
// it as the management library tells.
#pragma once

#include <cuda.h>
#include <gtest/gtest.h>
#include <nvml.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdlib>
#include <exception>
#include <functional>
#include <string>

namespace vram::sim_test {

inline constexpr size_t kKiB = 1024;
inline constexpr size_t kMiB = 1024 * kKiB;
inline constexpr size_t kGiB = 1024 * kMiB;
inline constexpr size_t kContextBytes = 518 * kMiB;
inline constexpr size_t kCardBytes = 24 * kGiB;

// Two cards of 24 GiB that no other test sees: made before main, for all tests of the program.
class Machine {
 public:
  Machine() : name_("test-" + std::to_string(::getpid())) {
    ::setenv("VRAM_SIM", "2x24GiB", 1);
    ::setenv("VRAM_SIM_NAME", name_.c_str(), 1);
    ::unsetenv("CUDA_VISIBLE_DEVICES");
  }
  ~Machine() { ::unlink(file().c_str()); }
  [[nodiscard]] std::string file() const {
    return "/dev/shm/vram-sim-" + std::to_string(::geteuid()) + "-" + name_;
  }

 private:
  std::string name_;
};

inline Machine machine;

inline nvmlDevice_t card(unsigned index) {
  nvmlDevice_t device = nullptr;
  EXPECT_EQ(nvmlDeviceGetHandleByIndex_v2(index, &device), NVML_SUCCESS);
  return device;
}

// What a process uses of a card; 0 when it is not listed.
inline size_t used_by(pid_t pid, unsigned index = 0) {
  nvmlProcessInfo_t infos[64];
  unsigned count = 64;
  EXPECT_EQ(nvmlDeviceGetComputeRunningProcesses_v3(card(index), &count, infos), NVML_SUCCESS);
  for (unsigned i = 0; i < count; ++i) {
    if (infos[i].pid == static_cast<unsigned>(pid)) return infos[i].usedGpuMemory;
  }
  return 0;
}
inline size_t used() { return used_by(::getpid()); }

inline size_t free_bytes() {
  size_t free = 0;
  size_t total = 0;
  EXPECT_EQ(cuMemGetInfo(&free, &total), CUDA_SUCCESS);
  return free;
}

// Runs `body` in a forked child, before this process has a driver; its result is the exit status.
inline pid_t start_child(const std::function<int()>& body) {
  const pid_t child = ::fork();
  if (child == 0) ::_exit(body());
  return child;
}
inline int exit_status(pid_t child) {
  int status = 0;
  EXPECT_EQ(::waitpid(child, &status, 0), child);
  return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
}

// The same for a body with expectations of its own: they must hold there, and nothing be thrown.
inline void in_child(const std::function<void()>& body) {
  const pid_t child = start_child([&] {
    try {
      body();
    } catch (const std::exception& error) {
      ADD_FAILURE() << error.what();
    }
    return ::testing::Test::HasFailure() ? 1 : 0;
  });
  EXPECT_EQ(exit_status(child), 0);
}

// A current primary context on device 0.
inline CUresult use_primary(CUdevice device = 0) {
  if (const CUresult result = cuInit(0); result != CUDA_SUCCESS) return result;
  CUcontext context = nullptr;
  const CUresult result = cuDevicePrimaryCtxRetain(&context, device);
  return result == CUDA_SUCCESS ? cuCtxSetCurrent(context) : result;
}

// Tests that need no process but their own: the driver is up, a context is current.
class OneProcess : public ::testing::Test {
 protected:
  void SetUp() override {
    ASSERT_EQ(nvmlInit_v2(), NVML_SUCCESS);
    ASSERT_EQ(use_primary(), CUDA_SUCCESS);
    ASSERT_EQ(cuStreamCreate(&stream_, CU_STREAM_NON_BLOCKING), CUDA_SUCCESS);
    before_ = used();
  }
  void TearDown() override {
    EXPECT_EQ(used(), before_) << "the test left memory behind";
    EXPECT_EQ(cuStreamDestroy(stream_), CUDA_SUCCESS);
    EXPECT_EQ(cuDevicePrimaryCtxRelease(0), CUDA_SUCCESS);
    EXPECT_EQ(nvmlShutdown(), NVML_SUCCESS);
  }
  // Bytes of the card taken since the test began.
  [[nodiscard]] size_t taken() const { return used() - before_; }

  CUstream stream_ = nullptr;
  size_t before_ = 0;
};

}  // namespace vram::sim_test
