// A program that closes every descriptor it did not open, as daemons do, and goes on.
#include <unistd.h>

#include "program.h"

int main() {
  CUdeviceptr block = 0;
  CUdeviceptr ordered = 0;
  start();
  closefrom(3);
  const CUresult first = cuMemAlloc(&block, kGiB);
  const CUresult second = cuMemAllocAsync(&ordered, kMiB, nullptr);
  std::printf("%d %d %d %d\n", first, second, cuMemFree(block), cuMemFreeAsync(ordered, nullptr));
  std::printf("%d\n", cuMemAlloc(&block, 30 * kGiB));
}
