// Contexts cost what they cost, and take with them what was allocated in them.
#include <dlfcn.h>

#include <initializer_list>
#include <random>
#include <vector>

#include "card.h"

namespace {

void allocate_of_every_kind() {
  CUdeviceptr small = 0;
  CUdeviceptr large = 0;
  CUdeviceptr managed = 0;
  CUarray array = nullptr;
  CUarray large_array = nullptr;
  const CUDA_ARRAY_DESCRIPTOR d = {64, 64, CU_AD_FORMAT_FLOAT, 1};
  const CUDA_ARRAY_DESCRIPTOR large_d = {2048, 2048, CU_AD_FORMAT_FLOAT, 1};
  OK(cuMemAlloc(&small, kKiB));
  OK(cuMemAlloc(&large, 100 * kMiB));
  OK(cuMemAllocManaged(&managed, 10 * kMiB, CU_MEM_ATTACH_GLOBAL));
  OK(cuArrayCreate(&array, &d));
  OK(cuArrayCreate(&large_array, &large_d));
}

// What is charged is what the card says; the slab for small blocks is charged beside it.
void check_books(std::size_t limit) {
  const std::size_t charged = limit - left();
  if (charged != held() && charged != held() + 2 * kMiB) {
    std::fprintf(stderr, "charged %zu, held %zu\n", charged, held());
    std::exit(1);
  }
}

// Every version of the call pays for its context, and one that does not fit is not there.
void every_version_pays(std::size_t limit) {
  using Flags = unsigned;
  CUcontext context = nullptr;
  const std::size_t before = left();
  const auto check_and_destroy = [&](CUresult made) {
    CHECK_IS(made, CUDA_SUCCESS);
    check_books(limit);
    CHECK(left() < before - 500 * kMiB);
    OK(cuCtxDestroy(context));
    CHECK_IS(left(), before);
  };
  void* const driver = dlopen("libcuda.so.1", RTLD_NOW);
  CHECK(driver != nullptr);
  for (const char* name : {"cuCtxCreate", "cuCtxCreate_v2"}) {
    const auto create =
        reinterpret_cast<CUresult (*)(CUcontext*, Flags, CUdevice)>(dlsym(driver, name));
    check_and_destroy(create(&context, 0, 0));
  }
  const auto create =
      reinterpret_cast<CUresult (*)(CUcontext*, CUexecAffinityParam*, int, Flags, CUdevice)>(
          dlsym(driver, "cuCtxCreate_v3"));
  check_and_destroy(create(&context, nullptr, 0, 0, 0));
}

// Retained twice, it ends with the second release and takes its memory along then.
void held_twice(std::size_t limit) {
  CUcontext context = nullptr;
  CUdeviceptr block = 0;
  OK(cuDevicePrimaryCtxRetain(&context, 0));
  OK(cuMemAlloc(&block, 100 * kMiB));
  OK(cuDevicePrimaryCtxRelease(0));
  check_books(limit);
  OK(cuMemFree(block));
  check_books(limit);
}

}  // namespace

int main(int count, char** arguments) {
  CHECK(count == 2);
  const std::size_t limit = std::strtoull(arguments[1], nullptr, 10);
  CUcontext const primary = start();
  check_books(limit);
  allocate_of_every_kind();
  OK(cuDevicePrimaryCtxReset(0));
  CHECK_IS(held(), 0);

  CUcontext context = nullptr;
  OK(cuDevicePrimaryCtxRetain(&context, 0));
  CHECK(context == primary || context != nullptr);
  OK(cuCtxSetCurrent(context));
  check_books(limit);

  every_version_pays(limit);
  held_twice(limit);

  // Any number of contexts, in any order, some without a single allocation.
  std::mt19937 random_bits(1);
  std::vector<CUcontext> contexts;
  for (int i = 0; i < 4000; ++i) {
    if (contexts.empty() || (contexts.size() < 150 && random_bits() % 2 == 0)) {
      CUcontext made = nullptr;
      CUcontext popped = nullptr;
      OK(cuCtxCreate(&made, nullptr, 0, 0));
      CUdeviceptr block = 0;
      if (random_bits() % 2 == 0) OK(cuMemAlloc(&block, 3 * kMiB));
      if (random_bits() % 4 == 0) OK(cuMemAlloc(&block, kKiB));
      OK(cuCtxPopCurrent(&popped));
      contexts.push_back(made);
    } else {
      const std::size_t at = random_bits() % contexts.size();
      OK(cuCtxDestroy(contexts[at]));
      contexts.erase(contexts.begin() + static_cast<std::ptrdiff_t>(at));
    }
    if (i % 100 == 0) check_books(limit);
  }
  for (CUcontext const made : contexts) OK(cuCtxDestroy(made));
  check_books(limit);

  // The stack of every thread of the card, at once.
  const std::size_t before = left();
  OK(cuCtxSetLimit(CU_LIMIT_STACK_SIZE, 4096));
  CHECK(left() < before - 700 * kMiB);
  check_books(limit);
  CHECK_IS(cuCtxSetLimit(CU_LIMIT_STACK_SIZE, 512 * kKiB), CUDA_ERROR_OUT_OF_MEMORY);
  OK(cuCtxSetLimit(CU_LIMIT_STACK_SIZE, 1024));
  CHECK_IS(left(), before);
}
