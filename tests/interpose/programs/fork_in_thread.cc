// A thread forks while others are in the middle of their calls. The children have the driver's
// answer for themselves, and start programs that work.
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <cstring>
#include <thread>
#include <vector>

#include "program.h"

namespace {

std::atomic<bool> done{false};

void allocate_on_and_on(CUcontext context) {
  OK(cuCtxSetCurrent(context));
  while (!done) {
    CUdeviceptr small = 0;
    CUdeviceptr large = 0;
    CUdeviceptr ordered = 0;
    OK(cuMemAlloc(&small, kKiB));
    OK(cuMemAlloc(&large, 3 * kMiB));
    OK(cuMemAllocAsync(&ordered, 3 * kMiB, CU_STREAM_PER_THREAD));
    OK(cuMemFreeAsync(ordered, CU_STREAM_PER_THREAD));
    OK(cuMemFree(large));
    OK(cuMemFree(small));
  }
}

void fork_one(char* self) {
  const pid_t child = fork();
  if (child == 0) {
    CUdeviceptr block = 0;
    if (cuMemAlloc(&block, kMiB) != CUDA_ERROR_NOT_INITIALIZED) _exit(2);
    if (cuMemFree(0x1000) != CUDA_ERROR_NOT_INITIALIZED) _exit(3);
    execl("/proc/self/exe", self, "child", nullptr);
    _exit(4);
  }
  int status = 0;
  CHECK_IS(waitpid(child, &status, 0), child);
  CHECK_IS(status, 0);
}

}  // namespace

int main(int count, char** arguments) {
  CUcontext const context = start();
  CUdeviceptr warm = 0;
  OK(cuMemAlloc(&warm, kKiB));
  const std::size_t before = left();
  if (count > 1) return 0;
  std::vector<std::thread> threads;
  for (int i = 0; i < 4; ++i) threads.emplace_back(allocate_on_and_on, context);
  std::thread forker([&] {
    for (int i = 0; i < 20; ++i) fork_one(arguments[0]);
  });
  forker.join();
  done = true;
  for (std::thread& thread : threads) thread.join();
  OK(cuCtxSynchronize());
  CHECK_IS(left(), before);
}
