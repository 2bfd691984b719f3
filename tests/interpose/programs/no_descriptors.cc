// no_descriptors WHEN: not one file descriptor is left, from the first call on ("first") or when
// the driver is up ("later").
#include <fcntl.h>
#include <sys/resource.h>
#include <unistd.h>

#include <cstring>

#include "program.h"

namespace {

void use_up_descriptors() {
  rlimit limit{};
  CHECK_IS(getrlimit(RLIMIT_NOFILE, &limit), 0);
  limit.rlim_cur = 256;
  CHECK_IS(setrlimit(RLIMIT_NOFILE, &limit), 0);
  while (open("/dev/null", O_RDONLY) >= 0) {
  }
}

}  // namespace

int main(int count, char** arguments) {
  CHECK(count == 2);
  CUdeviceptr block = 0;
  if (std::strcmp(arguments[1], "first") == 0) {
    use_up_descriptors();
    std::printf("%d\n", cuInit(0) != CUDA_SUCCESS);
    std::printf("%d\n", cuMemAlloc(&block, kMiB) != CUDA_SUCCESS);
    return 0;
  }
  start();
  use_up_descriptors();
  OK(cuMemAlloc(&block, 3 * kGiB));
  CHECK_IS(cuMemAlloc(&block, 30 * kGiB), CUDA_ERROR_OUT_OF_MEMORY);
  OK(cuMemAllocAsync(&block, 100 * kMiB, nullptr));
  OK(cuMemFreeAsync(block, nullptr));
  OK(cuCtxSynchronize());
}
