// exec: the same process, of the same job, with nothing of what it held before.
#include <unistd.h>

#include "program.h"

int main(int count, char** arguments) {
  CUdeviceptr block = 0;
  CUdeviceptr ordered = 0;
  start();
  OK(cuMemAlloc(&block, 2 * kGiB));
  OK(cuMemAllocAsync(&ordered, kGiB, nullptr));
  CHECK_IS(cuMemAlloc(&block, 2 * kGiB), CUDA_ERROR_OUT_OF_MEMORY);
  if (count > 3) return 0;
  char more[] = "again";
  char* const line[] = {arguments[0], more, count > 1 ? more : nullptr, count > 2 ? more : nullptr,
                        nullptr};
  execv("/proc/self/exe", line);
  return 9;
}
