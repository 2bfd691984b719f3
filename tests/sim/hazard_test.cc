// What must not crash or hang: processes that fork, exit or unload while the card works.
#include <dlfcn.h>
#include <signal.h>

#include <atomic>
#include <filesystem>
#include <thread>

#include "base/sanitized.h"
#include "execution_test.h"

namespace vram::sim_test {
namespace {

constexpr unsigned kHangSeconds = 20;  // a child that takes longer is killed by its alarm

CUresult start_spinning(uint64_t ns) {
  CUmodule module = nullptr;
  CUfunction spin = nullptr;
  if (const CUresult result = cuModuleLoadData(&module, kPtx); result != CUDA_SUCCESS) {
    return result;
  }
  if (const CUresult result = cuModuleGetFunction(&spin, module, "vram_spin_ns");
      result != CUDA_SUCCESS) {
    return result;
  }
  void* arguments[] = {&ns};
  return cuLaunchKernel(spin, 1, 1, 1, 1, 1, 1, 0, nullptr, arguments, nullptr);
}

// The driver's file under another name, which the loader takes for another library.
class CopiedLibrary {
 public:
  CopiedLibrary() {
    Dl_info info{};
    ::dladdr(reinterpret_cast<void*>(&cuInit), &info);
    path_ = std::filesystem::temp_directory_path() / ("vram-sim-" + std::to_string(::getpid()));
    std::filesystem::copy_file(info.dli_fname, path_);
  }
  ~CopiedLibrary() { std::filesystem::remove(path_); }
  CopiedLibrary(const CopiedLibrary&) = delete;
  CopiedLibrary& operator=(const CopiedLibrary&) = delete;
  [[nodiscard]] std::string path() const { return path_; }

 private:
  std::filesystem::path path_;
};

constexpr uint64_t kLong = 60000 * kMillisecond;

TEST(Hazards, ExitDuringALaunchDoesNotWaitForIt) {
  const Machine machine;
  const pid_t child = start_child([] {
    ::alarm(kHangSeconds);
    if (use_primary() != CUDA_SUCCESS || start_spinning(kLong) != CUDA_SUCCESS) return 1;
    std::exit(0);  // with all handlers, unlike the end of start_child
  });
  EXPECT_EQ(exit_status(child), 0);
}

TEST(Hazards, ExitWhileAnotherThreadWaitsForTheCard) {
  const Machine machine;
  const pid_t child = start_child([] {
    ::alarm(kHangSeconds);
    if (use_primary() != CUDA_SUCCESS || start_spinning(kLong) != CUDA_SUCCESS) return 1;
    std::thread([] {
      if (use_primary() == CUDA_SUCCESS) static_cast<void>(cuCtxSynchronize());
    }).detach();
    ::usleep(50000);
    std::exit(0);
  });
  EXPECT_EQ(exit_status(child), 0);
}

TEST(Hazards, AForkedChildHasNoDriverAndExitsWhileItsParentWorks) {
  if (base::kAddressSanitizer) {
    GTEST_SKIP() << "the address sanitizer's allocator may hang in a child of a threaded process";
  }
  const Machine machine;
  const pid_t child = start_child([] {
    ::alarm(kHangSeconds);
    if (use_primary() != CUDA_SUCCESS || start_spinning(200 * kMillisecond) != CUDA_SUCCESS) {
      return 1;
    }
    const pid_t grandchild = ::fork();
    if (grandchild == 0) {
      ::alarm(kHangSeconds);
      CUdeviceptr block = 0;
      CUstream stream = nullptr;
      const bool refused = cuMemAlloc(&block, 4) == CUDA_ERROR_NOT_INITIALIZED &&
                           cuStreamCreate(&stream, 0) == CUDA_ERROR_NOT_INITIALIZED &&
                           cuCtxSynchronize() == CUDA_ERROR_NOT_INITIALIZED;
      std::exit(refused ? 0 : 1);
    }
    if (exit_status(grandchild) != 0) return 2;
    return cuCtxSynchronize() == CUDA_SUCCESS ? 0 : 3;
  });
  EXPECT_EQ(exit_status(child), 0);
}

TEST(Hazards, ExecutorThreadsTakeNoSignals) {
  const Machine machine;
  const pid_t child = start_child([] {
    ::alarm(kHangSeconds);
    if (use_primary() != CUDA_SUCCESS || start_spinning(300 * kMillisecond) != CUDA_SUCCESS) {
      return 1;
    }
    static pthread_t main_thread;
    static std::atomic<bool> wrong{false};
    static std::atomic<bool> seen{false};
    main_thread = ::pthread_self();
    struct sigaction action {};
    action.sa_handler = [](int) {
      seen = true;
      if (!::pthread_equal(main_thread, ::pthread_self())) wrong = true;
    };
    ::sigaction(SIGUSR1, &action, nullptr);
    for (int i = 0; i < 20; ++i) ::kill(::getpid(), SIGUSR1);
    if (cuCtxSynchronize() != CUDA_SUCCESS) return 2;
    return seen && !wrong ? 0 : 3;
  });
  EXPECT_EQ(exit_status(child), 0);
}

TEST(Hazards, AContextCanGoWhileItsStreamsWaitForever) {
  const Machine machine;
  const pid_t child = start_child([] {
    ::alarm(kHangSeconds);
    if (use_primary() != CUDA_SUCCESS) return 1;
    CUdeviceptr word = 0;
    CUstream stream = nullptr;
    if (cuMemAlloc(&word, 4) != CUDA_SUCCESS || cuStreamCreate(&stream, 1) != CUDA_SUCCESS) {
      return 2;
    }
    if (cuMemsetD32(word, 0, 1) != CUDA_SUCCESS || cuCtxSynchronize() != CUDA_SUCCESS) return 3;
    if (cuStreamWaitValue32(stream, word, 1, CU_STREAM_WAIT_VALUE_EQ) != CUDA_SUCCESS) return 4;
    if (cuDevicePrimaryCtxReset(0) != CUDA_SUCCESS) return 5;
    return 0;
  });
  EXPECT_EQ(exit_status(child), 0);
}

TEST(Hazards, AnIllegalAddressStaysWithTheContext) {
  const Machine machine;
  const pid_t child = start_child([] {
    if (use_primary() != CUDA_SUCCESS) return 1;
    CUmodule module = nullptr;
    CUfunction fill = nullptr;
    CUdeviceptr word = 0;
    if (cuModuleLoadData(&module, kPtx) != CUDA_SUCCESS) return 2;
    if (cuModuleGetFunction(&fill, module, "vram_fill_u32") != CUDA_SUCCESS) return 3;
    if (cuMemAlloc(&word, 4) != CUDA_SUCCESS) return 4;
    CUdeviceptr nowhere = word + kGiB;
    uint64_t count = 1;
    uint32_t value = 1;
    void* arguments[] = {&nowhere, &count, &value};
    if (cuLaunchKernel(fill, 1, 1, 1, 1, 1, 1, 0, nullptr, arguments, nullptr) != CUDA_SUCCESS) {
      return 5;
    }
    if (cuCtxSynchronize() != CUDA_ERROR_ILLEGAL_ADDRESS) return 6;
    if (cuCtxSynchronize() != CUDA_ERROR_ILLEGAL_ADDRESS) return 7;
    if (cuMemAlloc(&word, 4) != CUDA_ERROR_ILLEGAL_ADDRESS) return 8;
    CUcontext context = nullptr;
    if (cuCtxCreate(&context, nullptr, 0, 0) != CUDA_SUCCESS) return 9;  // another is sound
    if (cuMemAlloc(&word, 4) != CUDA_SUCCESS) return 10;
    return 0;
  });
  EXPECT_EQ(exit_status(child), 0);
}

// Loads another copy of the library, for the test itself holds on to the first.
TEST(Hazards, TheLibraryStaysWhenItIsClosed) {
  const Machine machine;
  const pid_t child = start_child([] {
    ::alarm(kHangSeconds);
    const CopiedLibrary copy;
    void* library = ::dlopen(copy.path().c_str(), RTLD_NOW | RTLD_LOCAL);
    if (library == nullptr) return 1;
    const auto init = reinterpret_cast<CUresult (*)(unsigned)>(::dlsym(library, "cuInit"));
    const auto retain = reinterpret_cast<CUresult (*)(CUcontext*, CUdevice)>(
        ::dlsym(library, "cuDevicePrimaryCtxRetain"));
    const auto set = reinterpret_cast<CUresult (*)(CUcontext)>(::dlsym(library, "cuCtxSetCurrent"));
    const auto call = reinterpret_cast<CUresult (*)(CUstream, CUhostFn, void*)>(
        ::dlsym(library, "cuLaunchHostFunc"));
    CUcontext context = nullptr;
    if (init(0) != CUDA_SUCCESS || retain(&context, 0) != CUDA_SUCCESS ||
        set(context) != CUDA_SUCCESS) {
      return 2;
    }
    if (call(
            nullptr, [](void*) { ::usleep(100000); }, nullptr) != CUDA_SUCCESS)
      return 3;
    ::dlclose(library);
    ::usleep(200000);  // the executor returns into the library meanwhile
    return 0;
  });
  EXPECT_EQ(exit_status(child), 0);
}

}  // namespace
}  // namespace vram::sim_test
