// Memory given to another driver is charged until the descriptor is closed, freed or not. The limit
// is 4 GiB.
#include <unistd.h>

#include "card.h"

namespace {

// What the card shows is asked for when memory is given back.
std::size_t left_by_the_card() {
  CUdeviceptr block = 0;
  OK(cuMemAlloc(&block, 2 * kMiB));
  OK(cuMemFree(block));
  return left();
}

int exported(CUdeviceptr address, std::size_t bytes) {
  int descriptor = -1;
  OK(cuMemGetHandleForAddressRange(&descriptor, address, bytes, CU_MEM_RANGE_HANDLE_TYPE_DMA_BUF_FD,
                                   0));
  return descriptor;
}

void of_a_block() {
  const std::size_t before = left();
  CUdeviceptr block = 0;
  OK(cuMemAlloc(&block, kGiB));
  int descriptor = exported(block, kGiB);
  CHECK_IS(close(descriptor), 0);
  CHECK_IS(left(), before - kGiB);
  descriptor = exported(block, 4096);
  OK(cuMemFree(block));
  CHECK_IS(left(), before - kGiB);
  CHECK_IS(left_by_the_card(), before - kGiB);
  CHECK_IS(close(descriptor), 0);
  CHECK_IS(left_by_the_card(), before);
}

void of_virtual_memory() {
  const std::size_t before = left();
  const CUmemAllocationProp prop = on_device(0);
  CUdeviceptr range = 0;
  CUmemGenericAllocationHandle handle = 0;
  OK(cuMemAddressReserve(&range, kGiB, 0, 0, 0));
  OK(cuMemCreate(&handle, kGiB, &prop, 0));
  OK(cuMemMap(range, kGiB, 0, handle, 0));
  OK(cuMemRelease(handle));
  const int descriptor = exported(range, kGiB);
  OK(cuMemUnmap(range, kGiB));
  CHECK_IS(left(), before - kGiB);
  CHECK_IS(close(descriptor), 0);
  CHECK_IS(left_by_the_card(), before);
  OK(cuMemAddressFree(range, kGiB));
}

}  // namespace

int main() {
  start();
  of_a_block();
  of_virtual_memory();
}
