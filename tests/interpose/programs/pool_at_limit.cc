// pool_at_limit: near the limit a pool gives back what it keeps without need, before a request is
// refused; also what is freed on the stream and not finished there.
#include <unistd.h>

#include "program.h"

namespace {

CUdeviceptr take(std::size_t mib, CUstream stream) {
  CUdeviceptr block = 0;
  OK(cuMemAllocAsync(&block, mib * kMiB, stream));
  return block;
}

void take_two_and_free(CUstream stream) {
  const CUdeviceptr one = take(500, stream);
  const CUdeviceptr other = take(500, stream);
  OK(cuMemFreeAsync(one, stream));
  OK(cuMemFreeAsync(other, stream));
}

}  // namespace

int main() {
  start();
  CUstream stream = nullptr;
  CUmemoryPool pool = nullptr;
  cuuint64_t keep_all = ~cuuint64_t{0};
  OK(cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
  OK(cuDeviceGetDefaultMemPool(&pool, 0));
  OK(cuMemPoolSetAttribute(pool, CU_MEMPOOL_ATTR_RELEASE_THRESHOLD, &keep_all));

  take_two_and_free(stream);
  OK(cuStreamSynchronize(stream));
  CHECK(left() < 600 * kMiB);  // the pool keeps them
  OK(cuMemFreeAsync(take(1200, stream), stream));
  OK(cuStreamSynchronize(stream));
  OK(cuMemPoolTrimTo(pool, 0));

  OK(cuLaunchHostFunc(
      stream, [](void*) { usleep(200'000); }, nullptr));
  take_two_and_free(stream);
  OK(cuMemFreeAsync(take(1200, stream), stream));
  OK(cuStreamSynchronize(stream));
}
