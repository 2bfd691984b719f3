// What a killed process of the job held is there again at once.
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include "program.h"

int main(int count, char** arguments) {
  CUdeviceptr block = 0;
  if (count > 1) {
    start();
    OK(cuMemAlloc(&block, 2 * kGiB));
    std::puts("has it");
    std::fflush(stdout);
    for (;;) pause();
  }
  for (int round = 0; round < 3; ++round) {
    int ends[2] = {};
    CHECK_IS(pipe(ends), 0);
    const pid_t child = fork();
    if (child == 0) {
      dup2(ends[1], STDOUT_FILENO);
      execl("/proc/self/exe", arguments[0], "child", nullptr);
      _exit(9);
    }
    char byte = 0;
    CHECK_IS(read(ends[0], &byte, 1), 1);
    start();
    CHECK_IS(cuMemAlloc(&block, 2 * kGiB), CUDA_ERROR_OUT_OF_MEMORY);
    kill(child, SIGKILL);
    CHECK_IS(waitpid(child, nullptr, 0), child);
    OK(cuMemAlloc(&block, 2 * kGiB));
    OK(cuMemFree(block));
    OK(cuDevicePrimaryCtxReset(0));
    close(ends[0]);
    close(ends[1]);
  }
}
