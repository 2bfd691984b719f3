// grows_at_launch LIMIT_BYTES: what a kernel's local memory takes when it is launched is noticed
// before anything more is given away.
#include "card.h"

namespace {

// 8 KiB for each thread that the card can hold.
const char kPtx[] = R"(.version 7.0
.target sm_70
.address_size 64
.visible .entry deep() { .local .align 8 .b8 depot[8192]; ret; }
)";

}  // namespace

int main(int count, char** arguments) {
  CHECK(count == 2);
  const std::size_t limit = std::strtoull(arguments[1], nullptr, 10);
  start();
  CUmodule module = nullptr;
  CUfunction deep = nullptr;
  OK(cuModuleLoadData(&module, kPtx));
  OK(cuModuleGetFunction(&deep, module, "deep"));
  CUdeviceptr block = 0;
  OK(cuMemAlloc(&block, left() - 3072 * kMiB));
  const std::size_t before = held();
  OK(cuLaunchKernel(deep, 1, 1, 1, 1, 1, 1, 0, nullptr, nullptr, nullptr));
  OK(cuCtxSynchronize());
  CHECK(held() > before + 1024 * kMiB);
  CHECK_IS(cuMemAlloc(&block, 2560 * kMiB), CUDA_ERROR_OUT_OF_MEMORY);
  CHECK(held() <= limit);
  CHECK(left() <= limit - held());
}
