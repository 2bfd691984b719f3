// A thread without a context gets the driver's answer, and takes what needs none under the limit.
#include <thread>

#include "program.h"

int main() {
  start();
  std::thread([] {
    CUdeviceptr block = 0;
    std::size_t free = 0;
    std::size_t total = 0;
    CUarray array = nullptr;
    CUstream stream = nullptr;
    const CUDA_ARRAY_DESCRIPTOR d = {64, 64, CU_AD_FORMAT_FLOAT, 1};
    std::printf("%d %d %d %d %d %d %d %d\n", cuMemAlloc(&block, kMiB), cuMemAlloc(&block, kGiB),
                cuMemAllocManaged(&block, kMiB, CU_MEM_ATTACH_GLOBAL),
                cuMemAllocAsync(&block, kMiB, nullptr), cuMemGetInfo(&free, &total),
                cuArrayCreate(&array, &d), cuStreamCreate(&stream, 0), cuCtxSynchronize());
    const CUmemAllocationProp prop = on_device(0);
    CUmemGenericAllocationHandle handle = 0;
    CUmemGenericAllocationHandle second = 0;
    OK(cuMemCreate(&handle, 3 * kGiB, &prop, 0));
    std::printf("%d\n", cuMemCreate(&second, 3 * kGiB, &prop, 0) == CUDA_ERROR_OUT_OF_MEMORY);
    OK(cuMemRelease(handle));
    CUmemoryPool pool = nullptr;
    const CUmemPoolProps props = pool_on_device(0);
    OK(cuMemPoolCreate(&pool, &props));
    OK(cuMemPoolDestroy(pool));
  }).join();
}
