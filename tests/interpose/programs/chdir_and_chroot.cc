// chdir_and_chroot FOLDER: the files are where nobody finds them any more once the driver is up.
#include <unistd.h>

#include "program.h"

int main(int count, char** arguments) {
  CHECK(count == 2);
  start();
  CHECK_IS(chdir(arguments[1]), 0);
  if (geteuid() == 0) CHECK_IS(chroot("."), 0);
  CUdeviceptr block = 0;
  CUstream stream = nullptr;
  OK(cuMemAlloc(&block, kGiB));
  OK(cuStreamCreate(&stream, 0));
  CHECK_IS(cuMemAlloc(&block, 30 * kGiB), CUDA_ERROR_OUT_OF_MEMORY);
  CUcontext context = nullptr;
  OK(cuCtxCreate(&context, nullptr, 0, 0));
  OK(cuCtxDestroy(context));
}
