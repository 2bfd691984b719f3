// own_pool CASE: what `vram run --alloc vram` promises of stream-ordered memory; see
// own_pools_test.cc.
#include <sys/wait.h>
#include <unistd.h>

#include <cstring>
#include <map>
#include <string>

#include "card.h"
#include "program.h"

namespace {

CUmemoryPool pool_that_keeps_all() {
  CUmemoryPool pool = nullptr;
  cuuint64_t keep_all = ~cuuint64_t{0};
  OK(cuDeviceGetDefaultMemPool(&pool, 0));
  OK(cuMemPoolSetAttribute(pool, CU_MEMPOOL_ATTR_RELEASE_THRESHOLD, &keep_all));
  return pool;
}

void take_and_free(std::size_t bytes, CUstream stream = nullptr) {
  CUdeviceptr block = 0;
  OK(cuMemAllocAsync(&block, bytes, stream));
  OK(cuMemFreeAsync(block, stream));
  OK(cuStreamSynchronize(stream));
}

cuuint64_t attribute(CUmemoryPool pool, CUmemPool_attribute which) {
  cuuint64_t value = 0;
  OK(cuMemPoolGetAttribute(pool, which, &value));
  return value;
}

// Blocks lie side by side to the byte, as no driver's pool lays them: it is ours that serves.
void serves() {
  (void)pool_that_keeps_all();
  const std::size_t before = held();
  CUdeviceptr blocks[3] = {};
  for (CUdeviceptr& block : blocks) OK(cuMemAllocAsync(&block, 3 * kMiB, nullptr));
  CHECK_IS(held() - before, 10 * kMiB);  // 9 MiB of blocks on pages of 2 MiB
}

void idle() {
  (void)pool_that_keeps_all();
  const std::size_t before = held();
  take_and_free(600 * kMiB);
  CHECK(held() >= before + 600 * kMiB);
  for (int tenths = 0; tenths < 100 && held() > before; ++tenths) usleep(100'000);
  CHECK_IS(held(), before);
}

void others_get_it() {
  (void)pool_that_keeps_all();
  take_and_free(1200 * kMiB);
  CUdeviceptr block = 0;
  OK(cuMemAlloc(&block, 1200 * kMiB));
}

void statistics() {
  CUmemoryPool pool = pool_that_keeps_all();
  CUdeviceptr block = 0;
  OK(cuMemAllocAsync(&block, 100 * kMiB, nullptr));
  CHECK_IS(attribute(pool, CU_MEMPOOL_ATTR_USED_MEM_CURRENT), 100 * kMiB);
  CHECK(attribute(pool, CU_MEMPOOL_ATTR_RESERVED_MEM_CURRENT) >= 100 * kMiB);
  OK(cuMemFreeAsync(block, nullptr));
  CHECK_IS(attribute(pool, CU_MEMPOOL_ATTR_USED_MEM_CURRENT), 0);
  CHECK_IS(attribute(pool, CU_MEMPOOL_ATTR_USED_MEM_HIGH), 100 * kMiB);
  OK(cuStreamSynchronize(nullptr));
  OK(cuMemPoolTrimTo(pool, 0));
  CHECK_IS(attribute(pool, CU_MEMPOOL_ATTR_RESERVED_MEM_CURRENT), 0);
}

void wrong_frees() {
  CUdeviceptr block = 0;
  OK(cuMemAllocAsync(&block, kMiB, nullptr));
  CHECK_IS(cuMemFreeAsync(block + 512, nullptr), CUDA_ERROR_INVALID_VALUE);
  OK(cuMemFreeAsync(block, nullptr));
  CHECK_IS(cuMemFreeAsync(block, nullptr), CUDA_ERROR_INVALID_VALUE);
}

// A child has no pool of its parent's, and one of its own when it begins to use CUDA itself.
void forked() {
  const pid_t early = fork();
  if (early == 0) {
    start();
    take_and_free(100 * kMiB);
    _exit(0);
  }
  start();
  take_and_free(100 * kMiB);
  const pid_t late = fork();
  if (late == 0) _exit(0);
  for (const pid_t child : {early, late}) {
    int status = -1;
    CHECK_IS(waitpid(child, &status, 0), child);
    CHECK_IS(status, 0);
  }
  take_and_free(100 * kMiB);
}

// Streams that are gone, and contexts that are gone, with blocks of theirs.
void ended() {
  for (int round = 0; round < 3; ++round) {
    CUstream stream = nullptr;
    OK(cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
    take_and_free(50 * kMiB, stream);
    OK(cuStreamDestroy(stream));
  }
  CUdeviceptr block = 0;
  OK(cuMemAllocAsync(&block, 50 * kMiB, nullptr));
  OK(cuDevicePrimaryCtxReset(0));
  start();
  take_and_free(50 * kMiB);
}

}  // namespace

int main(int, char** arguments) {
  const std::map<std::string, void (*)()> cases{
      {"serves", serves},           {"idle", idle},     {"others_get_it", others_get_it},
      {"statistics", statistics},   {"forked", forked}, {"ended", ended},
      {"wrong_frees", wrong_frees},
  };
  if (std::strcmp(arguments[1], "forked") != 0) start();
  cases.at(arguments[1])();
}
