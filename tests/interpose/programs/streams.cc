// streams LIMIT_BYTES: streams are charged as the card says, whatever is kept in reserve; with
// nothing left none is made, whichever call makes it, and with room again it is.
#include <vector>

#include "card.h"

namespace {

void charged_as_held(std::size_t limit) {
  CUdeviceptr small = 0;
  OK(cuMemAlloc(&small, kKiB));
  std::vector<CUstream> streams(8);
  for (CUstream& stream : streams) OK(cuStreamCreate(&stream, CU_STREAM_DEFAULT));
  CUstream wrong = nullptr;
  CHECK_IS(cuStreamCreate(&wrong, ~0u), CUDA_ERROR_INVALID_VALUE);
  // A slab is kept in reserve for small blocks.
  CHECK_IS(limit - left(), held() + 2 * kMiB);
  for (CUstream const stream : streams) OK(cuStreamDestroy(stream));
  CHECK_IS(limit - left(), held() + 2 * kMiB);
}

void refused_when_nothing_is_left() {
  std::vector<CUdeviceptr> blocks;
  CUdeviceptr block = 0;
  while (cuMemAlloc(&block, 2 * kMiB) == CUDA_SUCCESS) blocks.push_back(block);
  CHECK(left() < 512 * kKiB);
  CUstream stream = nullptr;
  CHECK_IS(cuStreamCreate(&stream, CU_STREAM_DEFAULT), CUDA_ERROR_OUT_OF_MEMORY);
  CHECK_IS(cuStreamCreateWithPriority(&stream, CU_STREAM_DEFAULT, 0), CUDA_ERROR_OUT_OF_MEMORY);
  OK(cuMemFree(blocks.back()));
  OK(cuStreamCreate(&stream, CU_STREAM_DEFAULT));
  OK(cuStreamDestroy(stream));
  OK(cuStreamCreateWithPriority(&stream, CU_STREAM_DEFAULT, 0));
  OK(cuStreamDestroy(stream));
}

}  // namespace

int main(int count, char** arguments) {
  CHECK(count == 2);
  // The management library is there first: what it then tells this program is its limit.
  CHECK_IS(held(), 0);
  start();
  charged_as_held(std::strtoull(arguments[1], nullptr, 10));
  refused_when_nothing_is_left();
}
