// A capture in the strictest mode survives what a program may do beside it, here and in other
// threads.
#include <initializer_list>
#include <thread>

#include "program.h"

namespace {

void into_a_graph_that_is_there(CUstream stream, CUstream other, CUstreamCaptureMode mode) {
  CUgraph graph = nullptr;
  CUdeviceptr captured = 0;
  CUdeviceptr ordered = 0;
  OK(cuGraphCreate(&graph, 0));
  OK(cuStreamBeginCaptureToGraph(stream, graph, nullptr, nullptr, 0, mode));
  OK(cuMemAllocAsync(&captured, 40 * kMiB, stream));
  OK(cuMemAllocAsync(&ordered, 40 * kMiB, other));
  OK(cuMemFreeAsync(ordered, other));
  OK(cuMemFreeAsync(captured, stream));
  OK(cuStreamEndCapture(stream, &graph));
  OK(cuGraphDestroy(graph));
}

}  // namespace

int main() {
  start();
  CUstream stream = nullptr;
  CUstream other = nullptr;
  OK(cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
  OK(cuStreamCreate(&other, CU_STREAM_NON_BLOCKING));
  CUcontext context = nullptr;
  OK(cuCtxGetCurrent(&context));
  for (const CUstreamCaptureMode mode :
       {CU_STREAM_CAPTURE_MODE_GLOBAL, CU_STREAM_CAPTURE_MODE_THREAD_LOCAL,
        CU_STREAM_CAPTURE_MODE_RELAXED}) {
    CUgraph graph = nullptr;
    CUgraphExec exec = nullptr;
    CUdeviceptr captured = 0;
    CUdeviceptr ordered = 0;
    std::size_t free = 0;
    std::size_t total = 0;
    OK(cuStreamBeginCapture(stream, mode));
    OK(cuMemAllocAsync(&captured, 40 * kMiB, stream));
    OK(cuMemGetInfo(&free, &total));
    OK(cuDeviceTotalMem(&total, 0));
    OK(cuMemAllocAsync(&ordered, 40 * kMiB, other));
    OK(cuMemFreeAsync(ordered, other));
    std::thread([&] {
      OK(cuCtxSetCurrent(context));
      CUdeviceptr block = 0;
      OK(cuMemAllocAsync(&block, 40 * kMiB, other));
      OK(cuMemFreeAsync(block, other));
      CHECK_IS(cuMemAllocAsync(&block, 30 * kGiB, other), CUDA_ERROR_OUT_OF_MEMORY);
    }).join();
    OK(cuMemFreeAsync(captured, stream));
    OK(cuStreamEndCapture(stream, &graph));
    OK(cuGraphInstantiate(&exec, graph, 0));
    OK(cuGraphLaunch(exec, stream));
    OK(cuStreamSynchronize(stream));
    OK(cuGraphExecDestroy(exec));
    OK(cuGraphDestroy(graph));
    OK(cuDeviceGraphMemTrim(0));
    into_a_graph_that_is_there(stream, other, mode);
  }
}
