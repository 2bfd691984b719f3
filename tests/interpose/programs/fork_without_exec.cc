// Children by fork alone: one of a process that has not used CUDA yet, which may use it, and one of
// a process that has, to which the driver says no.
#include <sys/wait.h>
#include <unistd.h>

#include "program.h"

namespace {

void wait_for(pid_t child) {
  int status = 0;
  CHECK_IS(waitpid(child, &status, 0), child);
  CHECK_IS(status, 0);
}

}  // namespace

int main() {
  CUdeviceptr block = 0;
  pid_t child = fork();
  if (child == 0) {
    start();
    OK(cuMemAlloc(&block, 3 * kGiB));
    _exit(0);
  }
  wait_for(child);

  start();
  OK(cuMemAlloc(&block, kGiB));
  const std::size_t before = left();
  std::fflush(stdout);
  child = fork();
  if (child == 0) {
    CUdeviceptr own = 0;
    CUmemGenericAllocationHandle handle = 0;
    const CUmemAllocationProp prop = on_device(0);
    std::size_t free = 0;
    std::size_t total = 0;
    std::printf("%d %d %d %d %d %d %d\n", cuMemAlloc(&own, kMiB), cuMemAlloc(&own, kGiB),
                cuMemCreate(&handle, 2 * kMiB, &prop, 0), cuMemAllocAsync(&own, kMiB, nullptr),
                cuMemFree(block), cuMemGetInfo(&free, &total), cuInit(0));
    std::fflush(stdout);
    _exit(0);
  }
  wait_for(child);
  CHECK_IS(left(), before);
  OK(cuMemFree(block));
  CHECK(left() > before);
}
