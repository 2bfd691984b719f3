// A child made by vfork and exec is of the same job: the limit is for both together.
#include <sys/wait.h>
#include <unistd.h>

#include "program.h"

namespace {

int child_takes_two_gib(char* self) {
  const pid_t child = vfork();
  if (child == 0) {
    execl("/proc/self/exe", self, "child", nullptr);
    _exit(9);
  }
  int status = 0;
  CHECK_IS(waitpid(child, &status, 0), child);
  CHECK(WIFEXITED(status));
  return WEXITSTATUS(status);
}

}  // namespace

int main(int count, char** arguments) {
  CUdeviceptr block = 0;
  start();
  if (count > 1) return cuMemAlloc(&block, 2 * kGiB);
  CHECK_IS(child_takes_two_gib(arguments[0]), CUDA_SUCCESS);
  OK(cuMemAlloc(&block, 2 * kGiB));
  CHECK_IS(child_takes_two_gib(arguments[0]), CUDA_ERROR_OUT_OF_MEMORY);
  OK(cuMemFree(block));
  CHECK_IS(child_takes_two_gib(arguments[0]), CUDA_SUCCESS);
}
