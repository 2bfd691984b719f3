// kill9_mid_reserve ROUNDS: children that allocate without pause are killed at random moments.
// After each the account is what this process holds, and the limit is there to the byte.
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <random>

#include "program.h"

namespace {

[[noreturn]] void allocate_on_and_on() {
  start();
  std::puts("ready");
  std::fflush(stdout);
  for (;;) {
    CUdeviceptr small = 0;
    CUdeviceptr large = 0;
    CUdeviceptr ordered = 0;
    CUmemGenericAllocationHandle handle = 0;
    const CUmemAllocationProp prop = on_device(0);
    OK(cuMemAlloc(&small, kKiB));
    OK(cuMemAlloc(&large, 5 * kMiB));
    OK(cuMemAllocAsync(&ordered, 5 * kMiB, nullptr));
    OK(cuMemCreate(&handle, 2 * kMiB, &prop, 0));
    OK(cuMemRelease(handle));
    OK(cuMemFreeAsync(ordered, nullptr));
    OK(cuCtxSynchronize());
    OK(cuMemFree(large));
    OK(cuMemFree(small));
  }
}

}  // namespace

int main(int count, char** arguments) {
  CHECK(count == 2);
  const int rounds = std::atoi(arguments[1]);
  if (rounds == 0) allocate_on_and_on();
  start();
  const std::size_t before = left();
  CUdeviceptr block = 0;
  std::mt19937 random_bits(1);
  for (int round = 0; round < rounds; ++round) {
    int ends[2] = {};
    CHECK_IS(pipe(ends), 0);
    char zero[] = "0";
    const pid_t child = vfork();
    if (child == 0) {
      dup2(ends[1], STDOUT_FILENO);
      execl("/proc/self/exe", arguments[0], zero, nullptr);
      _exit(9);
    }
    close(ends[1]);
    char byte = 0;
    CHECK_IS(read(ends[0], &byte, 1), 1);
    close(ends[0]);
    usleep(static_cast<useconds_t>(random_bits() % 3000));
    kill(child, SIGKILL);
    int status = 0;
    CHECK_IS(waitpid(child, &status, 0), child);
    CHECK(WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL);
    // Refused and taken to the byte: the dead one's share is no longer in the way.
    CHECK_IS(cuMemAlloc(&block, before + 2 * kMiB), CUDA_ERROR_OUT_OF_MEMORY);
    CHECK_IS(left(), before);
    OK(cuMemAlloc(&block, before / (2 * kMiB) * (2 * kMiB)));
    OK(cuMemFree(block));
  }
}
