// green_contexts LIMIT_BYTES [failing]: a green context is charged what the card shows of it, is
// refused where that does not fit, and gives back what it and its streams took.
#include <vector>

#include "card.h"

namespace {

CUdevResourceDesc half_a_card() {
  CUdevResource all = {};
  CUdevResource half = {};
  CUdevResourceDesc description = nullptr;
  unsigned groups = 1;
  OK(cuDeviceGetDevResource(0, &all, CU_DEV_RESOURCE_TYPE_SM));
  OK(cuDevSmResourceSplitByCount(&half, &groups, &all, nullptr, 0, all.sm.smCount / 2));
  OK(cuDevResourceGenerateDesc(&description, &half, 1));
  return description;
}

CUresult create(CUgreenCtx* green) {
  return cuGreenCtxCreate(green, half_a_card(), 0, CU_GREEN_CTX_DEFAULT_STREAM);
}

// One slab in reserve for small blocks is charged beside what is held.
void check_books(std::size_t limit) {
  const std::size_t charged = limit - left();
  if (charged != held() && charged != held() + 2 * kMiB) {
    std::fprintf(stderr, "charged %zu, held %zu\n", charged, held());
    std::exit(1);
  }
}

void fill_the_card(std::size_t limit) {
  const std::size_t before = left();
  std::vector<CUgreenCtx> all;
  CUgreenCtx green = nullptr;
  CUresult result = CUDA_SUCCESS;
  while ((result = create(&green)) == CUDA_SUCCESS) {
    all.push_back(green);
    check_books(limit);
  }
  CHECK_IS(result, CUDA_ERROR_OUT_OF_MEMORY);
  CHECK(held() <= limit);
  CHECK(!all.empty());
  check_books(limit);
  for (CUgreenCtx const made : all) OK(cuGreenCtxDestroy(made));
  CHECK_IS(cuGreenCtxDestroy(all[0]), CUDA_ERROR_CONTEXT_IS_DESTROYED);
  CHECK_IS(left(), before);
}

void streams(std::size_t limit) {
  CUgreenCtx green = nullptr;
  OK(create(&green));
  const std::size_t before = left();
  CUdeviceptr block = 0;
  CUstream stream = nullptr;
  OK(cuGreenCtxStreamCreate(&stream, green, CU_STREAM_NON_BLOCKING, 0));
  CHECK(left() < before);
  check_books(limit);
  OK(cuStreamDestroy(stream));
  CHECK_IS(left(), before);
  OK(cuMemAlloc(&block, before));
  CHECK_IS(cuGreenCtxStreamCreate(&stream, green, CU_STREAM_NON_BLOCKING, 0),
           CUDA_ERROR_OUT_OF_MEMORY);
  CHECK_IS(left(), 0);
  OK(cuMemFree(block));
  OK(cuGreenCtxDestroy(green));
  check_books(limit);
}

// What is allocated while a green context is current belongs to the primary context.
void memory(std::size_t limit, CUcontext primary) {
  CUgreenCtx green = nullptr;
  CUcontext context = nullptr;
  CUdeviceptr small = 0;
  CUdeviceptr large = 0;
  OK(create(&green));
  OK(cuCtxFromGreenCtx(&context, green));
  OK(cuCtxSetCurrent(context));
  OK(cuMemAlloc(&small, kKiB));
  OK(cuMemAlloc(&large, 64 * kMiB));
  check_books(limit);
  OK(cuCtxSetCurrent(primary));
  OK(cuGreenCtxDestroy(green));
  check_books(limit);
  OK(cuMemFree(large));
  check_books(limit);
}

// A green context holds the primary one, also when it is the only one that does.
void alone(std::size_t limit) {
  CUgreenCtx green = nullptr;
  CUcontext context = nullptr;
  CUdeviceptr block = 0;
  OK(create(&green));
  OK(cuCtxFromGreenCtx(&context, green));
  OK(cuCtxSetCurrent(context));
  OK(cuMemAlloc(&block, 64 * kMiB));
  check_books(limit);
  OK(cuGreenCtxDestroy(green));
  CHECK_IS(held(), 0);
  start();
  check_books(limit);
}

// The driver refuses the first one, and the first destruction: nothing changes.
void failing(std::size_t limit) {
  OK(cuInit(0));
  CUgreenCtx green = nullptr;
  CHECK_IS(create(&green), CUDA_ERROR_UNKNOWN);
  CHECK(green == nullptr);
  CHECK_IS(held(), 0);
  OK(create(&green));
  start();
  const std::size_t before = left();
  check_books(limit);
  CHECK_IS(cuGreenCtxDestroy(green), CUDA_ERROR_UNKNOWN);
  CHECK_IS(left(), before);
  OK(cuGreenCtxDestroy(green));
  CHECK(left() > before);
  check_books(limit);
}

}  // namespace

int main(int count, char** arguments) {
  CHECK(count == 2 || count == 3);
  const std::size_t limit = std::strtoull(arguments[1], nullptr, 10);
  if (count == 3) return failing(limit), 0;
  CUcontext const primary = start();
  check_books(limit);
  fill_the_card(limit);
  streams(limit);
  memory(limit, primary);
  OK(cuDevicePrimaryCtxRelease(0));
  CHECK_IS(held(), 0);
  alone(limit);
}
