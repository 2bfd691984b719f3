// Which card is charged is a matter of the context or the stream, not of the thread that made it
// nor of what is current there. Card 0 has a limit of 4 GiB, card 1 one of 2 GiB.
#include <thread>

#include "program.h"

namespace {

std::size_t left_in(CUcontext context) {
  CUcontext popped = nullptr;
  OK(cuCtxPushCurrent(context));
  const std::size_t bytes = left();
  OK(cuCtxPopCurrent(&popped));
  return bytes;
}

}  // namespace

int main() {
  CUcontext on[2] = {start(0), nullptr};
  CUstream stream = nullptr;
  std::thread([&] {
    OK(cuDevicePrimaryCtxRetain(&on[1], 1));
    OK(cuCtxSetCurrent(on[1]));
    OK(cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
  }).join();

  // The first call that meets this context comes from a thread where the other one is current.
  const std::size_t before1 = left_in(on[1]);
  CUdeviceptr ordered = 0;
  OK(cuMemAllocAsync(&ordered, 500 * kMiB, stream));
  const std::size_t left0 = left_in(on[0]);
  const std::size_t left1 = left_in(on[1]);
  CHECK(left0 > 3 * kGiB);
  CHECK(left1 <= before1 - 500 * kMiB);
  OK(cuMemFreeAsync(ordered, stream));
  OK(cuStreamSynchronize(stream));
  CHECK(left_in(on[1]) >= left1 + 500 * kMiB);
  CHECK_IS(left_in(on[0]), left0);

  CUdeviceptr block = 0;
  std::thread([&] {
    OK(cuCtxSetCurrent(on[1]));
    OK(cuMemAlloc(&block, kGiB));
    CUdeviceptr more = 0;
    CHECK_IS(cuMemAlloc(&more, kGiB), CUDA_ERROR_OUT_OF_MEMORY);
  }).join();
  CHECK_IS(left_in(on[0]), left0);
  CHECK(left_in(on[1]) < kGiB);
  // Freed where the other card's context is current.
  OK(cuMemFree(block));
  CHECK(left_in(on[1]) > kGiB);
  CHECK_IS(left_in(on[0]), left0);
}
