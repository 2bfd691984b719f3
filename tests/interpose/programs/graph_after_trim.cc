// graph_after_trim LIMIT_BYTES: a graph whose memory was trimmed away needs room again at its next
// launch.
#include <vector>

#include "card.h"

int main(int count, char** arguments) {
  CHECK(count == 2);
  const std::size_t limit = std::strtoull(arguments[1], nullptr, 10);
  start();
  CUstream stream = nullptr;
  OK(cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
  CUgraph graph = graph_that_takes(32 * kMiB);
  CUgraphExec exec = nullptr;
  OK(cuGraphInstantiate(&exec, graph, 0));
  OK(cuGraphLaunch(exec, stream));
  OK(cuStreamSynchronize(stream));
  OK(cuDeviceGraphMemTrim(0));

  std::vector<CUdeviceptr> blocks;
  CUdeviceptr block = 0;
  while (cuMemAlloc(&block, 2 * kMiB) == CUDA_SUCCESS) blocks.push_back(block);
  CHECK_IS(cuGraphLaunch(exec, stream), CUDA_ERROR_OUT_OF_MEMORY);
  CHECK(held() <= limit);
  for (const CUdeviceptr one : blocks) OK(cuMemFree(one));
  OK(cuGraphLaunch(exec, stream));
  OK(cuStreamSynchronize(stream));
}
