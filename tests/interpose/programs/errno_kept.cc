// errno is the program's own: no governed call changes it, the first one included.
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>

#include "program.h"

namespace {

template <typename Call>
void keeps(const char* what, Call call) {
  errno = EXDEV;
  const CUresult result = call();
  if (errno != EXDEV) {
    std::fprintf(stderr, "%s (%d) leaves errno %d\n", what, result, errno);
    std::exit(1);
  }
}

#define KEEPS(call) keeps(#call, [&] { return call; })

// A process of the job that dies with memory of the card.
void leave_a_dead_one() {
  const pid_t child = fork();
  if (child == 0) {
    CUdeviceptr block = 0;
    start();
    OK(cuMemAlloc(&block, kGiB));
    kill(getpid(), SIGKILL);
  }
  CHECK_IS(waitpid(child, nullptr, 0), child);
}

}  // namespace

int main() {
  leave_a_dead_one();
  CUcontext context = nullptr;
  CUdeviceptr block = 0;
  CUdeviceptr large = 0;
  CUdeviceptr ordered = 0;
  CUmemGenericAllocationHandle handle = 0;
  CUarray array = nullptr;
  CUstream stream = nullptr;
  const CUDA_ARRAY_DESCRIPTOR d = {64, 64, CU_AD_FORMAT_FLOAT, 1};
  const CUmemAllocationProp prop = on_device(0);
  std::size_t free = 0;
  std::size_t total = 0;
  KEEPS(cuMemAlloc(&block, kMiB));  // before cuInit
  KEEPS(cuInit(0));
  KEEPS(cuDevicePrimaryCtxRetain(&context, 0));
  OK(cuCtxSetCurrent(context));
  KEEPS(cuMemGetInfo(&free, &total));  // finds the dead one
  CHECK(free > 3 * kGiB);
  KEEPS(cuStreamCreate(&stream, 0));
  KEEPS(cuMemAlloc(&block, kMiB));
  KEEPS(cuMemAlloc(&large, kGiB));
  KEEPS(cuMemAlloc(&large, 8 * kGiB));
  KEEPS(cuMemAllocManaged(&large, kMiB, CU_MEM_ATTACH_GLOBAL));
  KEEPS(cuArrayCreate(&array, &d));
  KEEPS(cuArrayDestroy(array));
  KEEPS(cuMemCreate(&handle, 2 * kMiB, &prop, 0));
  KEEPS(cuMemRelease(handle));
  KEEPS(cuMemAllocAsync(&ordered, kMiB, stream));
  KEEPS(cuMemAllocAsync(&large, 8 * kGiB, stream));
  KEEPS(cuMemFreeAsync(ordered, stream));
  KEEPS(cuStreamSynchronize(stream));
  KEEPS(cuMemGetInfo(&free, &total));
  KEEPS(cuMemFree(block));
  KEEPS(cuStreamDestroy(stream));
  KEEPS(cuDevicePrimaryCtxRelease(0));
}
