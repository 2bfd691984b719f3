// Stream capture and graphs, with their memory as docs/design/driver-behaviour.md has it.
#include <thread>

#include "execution_test.h"

namespace vram::sim_test {
namespace {

class Graphs : public Execution {
 protected:
  void TearDown() override {
    EXPECT_EQ(cuDeviceGraphMemTrim(0), CUDA_SUCCESS);
    Execution::TearDown();
  }
  void begin(CUstreamCaptureMode mode = CU_STREAM_CAPTURE_MODE_GLOBAL) const {
    ASSERT_EQ(cuStreamBeginCapture(stream_, mode), CUDA_SUCCESS);
  }
  [[nodiscard]] CUgraph end() const {
    CUgraph graph = nullptr;
    EXPECT_EQ(cuStreamEndCapture(stream_, &graph), CUDA_SUCCESS);
    return graph;
  }
  static CUgraphExec instantiate(CUgraph graph, unsigned long long flags = 0) {
    CUgraphExec exec = nullptr;
    EXPECT_EQ(cuGraphInstantiate(&exec, graph, flags), CUDA_SUCCESS);
    return exec;
  }
  void run(CUgraphExec exec) const {
    ASSERT_EQ(cuGraphLaunch(exec, stream_), CUDA_SUCCESS);
    ASSERT_EQ(cuStreamSynchronize(stream_), CUDA_SUCCESS);
  }
  static size_t node_count(CUgraph graph) {
    size_t count = 0;
    EXPECT_EQ(cuGraphGetNodes(graph, nullptr, &count), CUDA_SUCCESS);
    return count;
  }
  static size_t reserved() {
    cuuint64_t value = 0;
    EXPECT_EQ(cuDeviceGetGraphMemAttribute(0, CU_GRAPH_MEM_ATTR_RESERVED_MEM_CURRENT, &value),
              CUDA_SUCCESS);
    return value;
  }
};

TEST_F(Graphs, CapturedWorkRunsWhenTheGraphIsLaunched) {
  ASSERT_EQ(cuMemsetD32Async(words_, 0, 1, stream_), CUDA_SUCCESS);
  begin();
  ASSERT_EQ(fill(words_, 1, 3, stream_), CUDA_SUCCESS);
  const CUgraph graph = end();
  EXPECT_EQ(node_count(graph), 1u);
  EXPECT_EQ(word(stream_), 0u);
  const CUgraphExec exec = instantiate(graph);
  run(exec);
  EXPECT_EQ(word(stream_), 3u);
  EXPECT_EQ(cuGraphExecDestroy(exec), CUDA_SUCCESS);
  EXPECT_EQ(cuGraphDestroy(graph), CUDA_SUCCESS);
}

TEST_F(Graphs, ACaptureSpreadsByEventsAndMustBeJoined) {
  CUevent fork = nullptr;
  CUevent join = nullptr;
  ASSERT_EQ(cuEventCreate(&fork, CU_EVENT_DISABLE_TIMING), CUDA_SUCCESS);
  ASSERT_EQ(cuEventCreate(&join, CU_EVENT_DISABLE_TIMING), CUDA_SUCCESS);
  for (const bool joined : {true, false}) {
    begin();
    ASSERT_EQ(fill(words_, 1, 1, stream_), CUDA_SUCCESS);
    ASSERT_EQ(cuEventRecord(fork, stream_), CUDA_SUCCESS);
    ASSERT_EQ(cuStreamWaitEvent(other_, fork, 0), CUDA_SUCCESS);
    CUstreamCaptureStatus status{};
    ASSERT_EQ(cuStreamIsCapturing(other_, &status), CUDA_SUCCESS);
    EXPECT_EQ(status, CU_STREAM_CAPTURE_STATUS_ACTIVE);
    EXPECT_EQ(cuEventQuery(fork), CUDA_ERROR_CAPTURED_EVENT);
    ASSERT_EQ(fill(words_ + 4, 1, 2, other_), CUDA_SUCCESS);
    ASSERT_EQ(cuEventRecord(join, other_), CUDA_SUCCESS);
    if (joined) {
      ASSERT_EQ(cuStreamWaitEvent(stream_, join, 0), CUDA_SUCCESS);
    }
    CUgraph graph = nullptr;
    EXPECT_EQ(cuStreamEndCapture(stream_, &graph),
              joined ? CUDA_SUCCESS : CUDA_ERROR_STREAM_CAPTURE_UNJOINED);
    if (joined) {
      EXPECT_EQ(cuGraphDestroy(graph), CUDA_SUCCESS);
    }
    ASSERT_EQ(cuStreamIsCapturing(other_, &status), CUDA_SUCCESS);
    EXPECT_EQ(status, CU_STREAM_CAPTURE_STATUS_NONE);
  }
  EXPECT_EQ(cuEventDestroy(fork), CUDA_SUCCESS);
  EXPECT_EQ(cuEventDestroy(join), CUDA_SUCCESS);
}

TEST_F(Graphs, AnUnsafeCallInAGlobalCaptureBreaksIt) {
  CUmemoryPool pool = nullptr;
  ASSERT_EQ(cuDeviceGetDefaultMemPool(&pool, 0), CUDA_SUCCESS);
  begin();
  cuuint64_t value = 0;
  EXPECT_EQ(cuMemPoolGetAttribute(pool, CU_MEMPOOL_ATTR_USED_MEM_CURRENT, &value),
            CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED);
  EXPECT_EQ(fill(words_, 1, 1, stream_), CUDA_ERROR_STREAM_CAPTURE_INVALIDATED);
  CUgraph graph = nullptr;
  EXPECT_EQ(cuStreamEndCapture(stream_, &graph), CUDA_ERROR_STREAM_CAPTURE_INVALIDATED);
  EXPECT_EQ(graph, nullptr);
}

TEST_F(Graphs, AllocationIsUnsafeInACaptureToo) {
  begin();
  CUdeviceptr block = 0;
  EXPECT_EQ(cuMemAlloc(&block, kMiB), CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED);
  CUgraph graph = nullptr;
  EXPECT_EQ(cuStreamEndCapture(stream_, &graph), CUDA_ERROR_STREAM_CAPTURE_INVALIDATED);
}

TEST_F(Graphs, AThreadInRelaxedModeHarmsNoCapture) {
  CUmemoryPool pool = nullptr;
  ASSERT_EQ(cuDeviceGetDefaultMemPool(&pool, 0), CUDA_SUCCESS);
  begin();
  CUstreamCaptureMode mode = CU_STREAM_CAPTURE_MODE_RELAXED;
  ASSERT_EQ(cuThreadExchangeStreamCaptureMode(&mode), CUDA_SUCCESS);
  EXPECT_EQ(mode, CU_STREAM_CAPTURE_MODE_GLOBAL);
  cuuint64_t value = 0;
  EXPECT_EQ(cuMemPoolGetAttribute(pool, CU_MEMPOOL_ATTR_USED_MEM_CURRENT, &value), CUDA_SUCCESS);
  ASSERT_EQ(cuThreadExchangeStreamCaptureMode(&mode), CUDA_SUCCESS);
  size_t free = 0;
  size_t total = 0;
  EXPECT_EQ(cuMemGetInfo(&free, &total), CUDA_SUCCESS);
  EXPECT_EQ(cuGraphDestroy(end()), CUDA_SUCCESS);
}

TEST_F(Graphs, AThreadLocalCaptureIsNoConcernOfOtherThreads) {
  for (const auto mode : {CU_STREAM_CAPTURE_MODE_THREAD_LOCAL, CU_STREAM_CAPTURE_MODE_GLOBAL}) {
    begin(mode);
    std::thread([mode] {
      ASSERT_EQ(use_primary(), CUDA_SUCCESS);
      CUdeviceptr block = 0;
      const bool allowed = mode == CU_STREAM_CAPTURE_MODE_THREAD_LOCAL;
      EXPECT_EQ(cuMemAlloc(&block, kMiB),
                allowed ? CUDA_SUCCESS : CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED);
      CUstreamCaptureMode relaxed = CU_STREAM_CAPTURE_MODE_RELAXED;
      ASSERT_EQ(cuThreadExchangeStreamCaptureMode(&relaxed), CUDA_SUCCESS);
      if (allowed) {
        EXPECT_EQ(cuMemFree(block), CUDA_SUCCESS);
      }
      EXPECT_EQ(cuDevicePrimaryCtxRelease(0), CUDA_SUCCESS);
    }).join();
    CUgraph graph = nullptr;
    EXPECT_EQ(cuStreamEndCapture(stream_, &graph), mode == CU_STREAM_CAPTURE_MODE_THREAD_LOCAL
                                                       ? CUDA_SUCCESS
                                                       : CUDA_ERROR_STREAM_CAPTURE_INVALIDATED);
    if (graph != nullptr) {
      EXPECT_EQ(cuGraphDestroy(graph), CUDA_SUCCESS);
    }
  }
}

TEST_F(Graphs, WaitingForACapturingStreamBreaksTheCapture) {
  begin();
  EXPECT_EQ(cuStreamSynchronize(stream_), CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED);
  EXPECT_EQ(cuStreamQuery(stream_), CUDA_ERROR_STREAM_CAPTURE_INVALIDATED);
  CUgraph graph = nullptr;
  EXPECT_EQ(cuStreamEndCapture(stream_, &graph), CUDA_ERROR_STREAM_CAPTURE_INVALIDATED);
}

TEST_F(Graphs, ACaptureEndsWithTheStreamItBeganOn) {
  CUstream stream = nullptr;
  ASSERT_EQ(cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING), CUDA_SUCCESS);
  ASSERT_EQ(cuStreamBeginCapture(stream, CU_STREAM_CAPTURE_MODE_GLOBAL), CUDA_SUCCESS);
  ASSERT_EQ(cuStreamDestroy(stream), CUDA_SUCCESS);
  CUdeviceptr block = 0;
  EXPECT_EQ(cuMemAlloc(&block, kMiB), CUDA_SUCCESS) << "nobody captures any more";
  EXPECT_EQ(cuMemFree(block), CUDA_SUCCESS);
}

TEST_F(Graphs, TheLegacyStreamCannotWaitForACapture) {
  CUstream blocking = nullptr;
  ASSERT_EQ(cuStreamCreate(&blocking, CU_STREAM_DEFAULT), CUDA_SUCCESS);
  ASSERT_EQ(cuStreamBeginCapture(blocking, CU_STREAM_CAPTURE_MODE_RELAXED), CUDA_SUCCESS);
  EXPECT_EQ(fill(words_, 1, 1, nullptr), CUDA_ERROR_STREAM_CAPTURE_IMPLICIT);
  CUgraph graph = nullptr;
  EXPECT_EQ(cuStreamEndCapture(blocking, &graph), CUDA_ERROR_STREAM_CAPTURE_INVALIDATED);
  EXPECT_EQ(cuStreamBeginCapture(nullptr, CU_STREAM_CAPTURE_MODE_RELAXED),
            CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED);
  EXPECT_EQ(cuStreamDestroy(blocking), CUDA_SUCCESS);
}

TEST_F(Graphs, ACapturedAllocationTakesMemoryAtTheFirstLaunchAndKeepsItUntilTheTrim) {
  const size_t before = used();
  begin();
  CUdeviceptr block = 0;
  ASSERT_EQ(cuMemAllocAsync(&block, 40 * kMiB, stream_), CUDA_SUCCESS);
  ASSERT_EQ(cuMemsetD32Async(block, 6, 1, stream_), CUDA_SUCCESS);
  ASSERT_EQ(cuMemcpyDtoDAsync(words_, block, 4, stream_), CUDA_SUCCESS);
  ASSERT_EQ(cuMemFreeAsync(block, stream_), CUDA_SUCCESS);
  const CUgraph graph = end();
  EXPECT_EQ(node_count(graph), 4u);
  EXPECT_EQ(used(), before);
  const CUgraphExec exec = instantiate(graph);
  EXPECT_EQ(reserved(), 0u);
  for (int i = 0; i < 3; ++i) {
    run(exec);
    EXPECT_EQ(reserved(), 64 * kMiB);
  }
  EXPECT_EQ(word(stream_), 6u);
  EXPECT_EQ(used() - before, 64 * kMiB);
  ASSERT_EQ(cuGraphExecDestroy(exec), CUDA_SUCCESS);
  ASSERT_EQ(cuGraphDestroy(graph), CUDA_SUCCESS);
  EXPECT_EQ(reserved(), 64 * kMiB);
  ASSERT_EQ(cuDeviceGraphMemTrim(0), CUDA_SUCCESS);
  EXPECT_EQ(reserved(), 0u);
  EXPECT_EQ(used(), before);
}

TEST_F(Graphs, AGraphWithMemoryHasOneExecutable) {
  begin();
  CUdeviceptr block = 0;
  ASSERT_EQ(cuMemAllocAsync(&block, kMiB, stream_), CUDA_SUCCESS);
  ASSERT_EQ(cuMemFreeAsync(block, stream_), CUDA_SUCCESS);
  const CUgraph graph = end();
  CUgraphExec exec = instantiate(graph);
  CUgraphExec second = nullptr;
  EXPECT_EQ(cuGraphInstantiate(&second, graph, 0), CUDA_ERROR_NOT_SUPPORTED);
  CUgraph clone = nullptr;
  EXPECT_EQ(cuGraphClone(&clone, graph), CUDA_ERROR_NOT_SUPPORTED);
  ASSERT_EQ(cuGraphExecDestroy(exec), CUDA_SUCCESS);
  exec = instantiate(graph);
  ASSERT_EQ(cuGraphExecDestroy(exec), CUDA_SUCCESS);
  ASSERT_EQ(cuGraphDestroy(graph), CUDA_SUCCESS);
}

TEST_F(Graphs, MemoryThatIsNotFreedInTheGraphIsTheProgramsToFree) {
  CUgraph graph = nullptr;
  ASSERT_EQ(cuGraphCreate(&graph, 0), CUDA_SUCCESS);
  CUDA_MEM_ALLOC_NODE_PARAMS parameters{};
  parameters.poolProps.allocType = CU_MEM_ALLOCATION_TYPE_PINNED;
  parameters.poolProps.location = {CU_MEM_LOCATION_TYPE_DEVICE, 0};
  parameters.bytesize = 8 * kMiB;
  CUgraphNode node = nullptr;
  ASSERT_EQ(cuGraphAddMemAllocNode(&node, graph, nullptr, 0, &parameters), CUDA_SUCCESS);
  ASSERT_NE(parameters.dptr, 0u);
  CUgraphExec exec = instantiate(graph);
  run(exec);
  EXPECT_EQ(cuGraphLaunch(exec, stream_), CUDA_ERROR_INVALID_VALUE) << "still allocated";
  ASSERT_EQ(cuMemFreeAsync(parameters.dptr, stream_), CUDA_SUCCESS);
  run(exec);
  ASSERT_EQ(cuMemFree(parameters.dptr), CUDA_SUCCESS);
  EXPECT_EQ(reserved(), 32 * kMiB);
  ASSERT_EQ(cuGraphExecDestroy(exec), CUDA_SUCCESS);
  exec = instantiate(graph, CUDA_GRAPH_INSTANTIATE_FLAG_AUTO_FREE_ON_LAUNCH);
  run(exec);
  run(exec);
  ASSERT_EQ(cuMemFree(parameters.dptr), CUDA_SUCCESS);
  ASSERT_EQ(cuGraphExecDestroy(exec), CUDA_SUCCESS);
  ASSERT_EQ(cuGraphDestroy(graph), CUDA_SUCCESS);
}

// A graph with one allocation that is not freed in it.
CUgraph graph_with_memory(size_t bytes, CUdeviceptr* block) {
  CUgraph graph = nullptr;
  CUgraphNode node = nullptr;
  CUDA_MEM_ALLOC_NODE_PARAMS parameters{};
  parameters.poolProps.allocType = CU_MEM_ALLOCATION_TYPE_PINNED;
  parameters.poolProps.location = {CU_MEM_LOCATION_TYPE_DEVICE, 0};
  parameters.bytesize = bytes;
  EXPECT_EQ(cuGraphCreate(&graph, 0), CUDA_SUCCESS);
  EXPECT_EQ(cuGraphAddMemAllocNode(&node, graph, nullptr, 0, &parameters), CUDA_SUCCESS);
  *block = parameters.dptr;
  return graph;
}

CUresult add_child(CUgraph parent, CUgraph child, CUgraphChildGraphNodeOwnership ownership) {
  CUgraphNode node = nullptr;
  CUgraphNodeParams parameters{};
  parameters.type = CU_GRAPH_NODE_TYPE_GRAPH;
  parameters.graph = {child, ownership};
  return cuGraphAddNode(&node, parent, nullptr, nullptr, 0, &parameters);
}

TEST_F(Graphs, AGraphWithMemoryBecomesAChildByMovingOnly) {
  CUdeviceptr block = 0;
  CUgraph parent = nullptr;
  CUgraphNode node = nullptr;
  ASSERT_EQ(cuGraphCreate(&parent, 0), CUDA_SUCCESS);
  const CUgraph child = graph_with_memory(8 * kMiB, &block);
  EXPECT_EQ(cuGraphAddChildGraphNode(&node, parent, nullptr, 0, child), CUDA_ERROR_NOT_SUPPORTED);
  EXPECT_EQ(add_child(parent, child, CU_GRAPH_CHILD_GRAPH_OWNERSHIP_CLONE),
            CUDA_ERROR_NOT_SUPPORTED);
  EXPECT_EQ(add_child(child, child, CU_GRAPH_CHILD_GRAPH_OWNERSHIP_MOVE), CUDA_ERROR_INVALID_VALUE);
  ASSERT_EQ(add_child(parent, child, CU_GRAPH_CHILD_GRAPH_OWNERSHIP_MOVE), CUDA_SUCCESS);
  EXPECT_EQ(node_count(parent), 1u);
  const CUgraphExec exec = instantiate(parent);
  run(exec);
  EXPECT_EQ(reserved(), 32 * kMiB);
  EXPECT_EQ(cuMemFree(block), CUDA_SUCCESS);
  EXPECT_EQ(cuGraphExecDestroy(exec), CUDA_SUCCESS);
  EXPECT_EQ(cuGraphDestroy(parent), CUDA_SUCCESS);
}

TEST_F(Graphs, AMovedGraphIsItsParents) {
  CUdeviceptr block = 0;
  CUgraph parent = nullptr;
  CUgraph other = nullptr;
  CUgraphExec exec = nullptr;
  CUgraphNode node = nullptr;
  ASSERT_EQ(cuGraphCreate(&parent, 0), CUDA_SUCCESS);
  ASSERT_EQ(cuGraphCreate(&other, 0), CUDA_SUCCESS);
  const CUgraph child = graph_with_memory(kMiB, &block);
  ASSERT_EQ(add_child(parent, child, CU_GRAPH_CHILD_GRAPH_OWNERSHIP_MOVE), CUDA_SUCCESS);
  EXPECT_NE(cuGraphInstantiate(&exec, child, 0), CUDA_SUCCESS);
  EXPECT_NE(cuGraphDestroy(child), CUDA_SUCCESS);
  EXPECT_NE(add_child(other, child, CU_GRAPH_CHILD_GRAPH_OWNERSHIP_MOVE), CUDA_SUCCESS);
  EXPECT_NE(add_child(other, child, CU_GRAPH_CHILD_GRAPH_OWNERSHIP_CLONE), CUDA_SUCCESS);
  EXPECT_NE(cuGraphAddMemFreeNode(&node, child, nullptr, 0, block), CUDA_SUCCESS);
  EXPECT_EQ(node_count(child), 1u) << "its handle stays good";
  EXPECT_EQ(cuGraphDestroy(parent), CUDA_SUCCESS);
  size_t count = 0;
  EXPECT_NE(cuGraphGetNodes(child, nullptr, &count), CUDA_SUCCESS) << "it goes with its parent";
  EXPECT_EQ(cuGraphDestroy(other), CUDA_SUCCESS);
}

TEST_F(Graphs, AreBuiltNodeByNode) {
  CUgraph graph = nullptr;
  ASSERT_EQ(cuGraphCreate(&graph, 0), CUDA_SUCCESS);
  CUDA_MEMSET_NODE_PARAMS fill{};
  fill.dst = words_;
  fill.value = 4;
  fill.elementSize = 4;
  fill.width = 1;
  fill.height = 1;
  CUgraphNode first = nullptr;
  ASSERT_EQ(cuGraphAddMemsetNode(&first, graph, nullptr, 0, &fill, nullptr), CUDA_SUCCESS);
  CUDA_KERNEL_NODE_PARAMS kernel{};
  CUdeviceptr out = words_ + 4;
  uint64_t count = 1;
  uint32_t value = 5;
  std::array<void*, 3> arguments{&out, &count, &value};
  kernel.func = function("vram_fill_u32");
  kernel.gridDimX = kernel.gridDimY = kernel.gridDimZ = 1;
  kernel.blockDimX = kernel.blockDimY = kernel.blockDimZ = 1;
  kernel.kernelParams = arguments.data();
  CUgraphNode second = nullptr;
  ASSERT_EQ(cuGraphAddKernelNode(&second, graph, &first, 1, &kernel), CUDA_SUCCESS);
  size_t edges = 0;
  ASSERT_EQ(cuGraphGetEdges(graph, nullptr, nullptr, nullptr, &edges), CUDA_SUCCESS);
  EXPECT_EQ(edges, 1u);
  const CUgraphExec exec = instantiate(graph);
  value = 6;
  ASSERT_EQ(cuGraphExecKernelNodeSetParams(exec, second, &kernel), CUDA_SUCCESS);
  run(exec);
  std::array<uint32_t, 2> host{};
  ASSERT_EQ(cuMemcpyDtoH(host.data(), words_, sizeof(host)), CUDA_SUCCESS);
  EXPECT_EQ(host[0], 4u);
  EXPECT_EQ(host[1], 6u);
  CUDA_KERNEL_NODE_PARAMS read{};
  ASSERT_EQ(cuGraphKernelNodeGetParams(second, &read), CUDA_SUCCESS);
  EXPECT_EQ(*static_cast<uint32_t*>(read.kernelParams[2]), 5u) << "the graph keeps its own";
  ASSERT_EQ(cuGraphExecDestroy(exec), CUDA_SUCCESS);
  ASSERT_EQ(cuGraphDestroy(graph), CUDA_SUCCESS);
}

TEST_F(Graphs, AnExecutableTakesOverAGraphOfTheSameShape) {
  begin();
  ASSERT_EQ(fill(words_, 1, 1, stream_), CUDA_SUCCESS);
  const CUgraph first = end();
  begin();
  ASSERT_EQ(fill(words_, 1, 2, stream_), CUDA_SUCCESS);
  const CUgraph second = end();
  begin();
  ASSERT_EQ(fill(words_, 1, 3, stream_), CUDA_SUCCESS);
  ASSERT_EQ(fill(words_, 1, 3, stream_), CUDA_SUCCESS);
  const CUgraph longer = end();
  const CUgraphExec exec = instantiate(first);
  CUgraphExecUpdateResultInfo info{};
  ASSERT_EQ(cuGraphExecUpdate(exec, second, &info), CUDA_SUCCESS);
  run(exec);
  EXPECT_EQ(word(stream_), 2u);
  EXPECT_EQ(cuGraphExecUpdate(exec, longer, &info), CUDA_ERROR_GRAPH_EXEC_UPDATE_FAILURE);
  EXPECT_EQ(info.result, CU_GRAPH_EXEC_UPDATE_ERROR_TOPOLOGY_CHANGED);
  EXPECT_EQ(cuGraphExecDestroy(exec), CUDA_SUCCESS);
  for (CUgraph graph : {first, second, longer}) EXPECT_EQ(cuGraphDestroy(graph), CUDA_SUCCESS);
}

}  // namespace
}  // namespace vram::sim_test
