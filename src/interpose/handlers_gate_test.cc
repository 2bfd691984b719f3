// The handlers of a stand-in, built into the test, before the simulated driver: the gate that they
// pass is the test's.

#include <gtest/gtest.h>
#include <unistd.h>

#include <atomic>
#include <cstdlib>
#include <functional>
#include <string>
#include <thread>

#include "interpose/process.h"
#include "residency/gate.h"

namespace vram::interpose {
namespace {

using residency::Gate;

constexpr std::uint64_t kLong_us = 5'000'000;
constexpr std::size_t kBytes = 2 * kMiB;
const char kPtx[] =
    ".version 7.0\n.target sm_70\n.address_size 64\n.visible .entry empty() { ret; }\n";

std::atomic<bool> waits_outside{false};

class HandlersAtTheGate : public ::testing::Test {
 protected:
  static std::string machine() { return "test-gate-" + std::to_string(getpid()); }

  void SetUp() override {
    setenv("VRAM_SIM", "1x24GiB", 1);
    setenv("VRAM_SIM_NAME", machine().c_str(), 1);
    setenv("LD_LIBRARY_PATH", VRAM_SIMULATED_DRIVERS, 1);
    Gate::put_up([] { waits_outside = true; });
    ASSERT_EQ(cuInit(0), CUDA_SUCCESS);
    ASSERT_EQ(cuDevicePrimaryCtxRetain(&context_, 0), CUDA_SUCCESS);
    ASSERT_EQ(cuCtxSetCurrent(context_), CUDA_SUCCESS);
    ASSERT_EQ(cuStreamCreate(&stream_, CU_STREAM_NON_BLOCKING), CUDA_SUCCESS);
    ASSERT_EQ(cuMemAlloc_v2(&block_, kBytes), CUDA_SUCCESS);
  }
  void TearDown() override {
    process().graphs_with_memory = 0;
    EXPECT_EQ(cuMemFree_v2(block_), CUDA_SUCCESS);
    EXPECT_EQ(cuStreamDestroy_v2(stream_), CUDA_SUCCESS);
    EXPECT_EQ(cuDevicePrimaryCtxRelease_v2(0), CUDA_SUCCESS);
    unlink(("/dev/shm/vram-sim-" + std::to_string(geteuid()) + "-" + machine()).c_str());
  }

  // The call, made by another thread, is held up by a shut gate, and succeeds once it opens.
  void expect_held_up(const char* what, const std::function<CUresult()>& call) const {
    ASSERT_TRUE(Gate::close(kLong_us) && Gate::shut()) << what;
    waits_outside = false;
    std::atomic<bool> done{false};
    CUresult result = CUDA_ERROR_UNKNOWN;
    std::thread caller([&] {
      EXPECT_EQ(cuCtxSetCurrent(context_), CUDA_SUCCESS);
      result = call();
      done = true;
    });
    while (!waits_outside && !done) std::this_thread::yield();
    EXPECT_FALSE(done) << what << " went by a shut gate";
    Gate::open();
    caller.join();
    EXPECT_EQ(result, CUDA_SUCCESS) << what;
    EXPECT_TRUE(Gate::close(kLong_us)) << what << " is still inside";
    Gate::open();
  }

  [[nodiscard]] CUgraph graph_of_a_fill() const {
    CUgraph graph = nullptr;
    EXPECT_EQ(cuStreamBeginCapture_v2(stream_, CU_STREAM_CAPTURE_MODE_RELAXED), CUDA_SUCCESS);
    EXPECT_EQ(cuMemsetD8Async(block_, 1, kBytes, stream_), CUDA_SUCCESS);
    EXPECT_EQ(cuStreamEndCapture(stream_, &graph), CUDA_SUCCESS);
    return graph;
  }

  CUcontext context_ = nullptr;
  CUstream stream_ = nullptr;
  CUdeviceptr block_ = 0;
};

#define HELD_UP(call) expect_held_up(#call, [&] { return call; })

TEST_F(HandlersAtTheGate, WorkOnMemoryWaits) {
  CUmodule module = nullptr;
  CUfunction empty = nullptr;
  ASSERT_EQ(cuModuleLoadData(&module, kPtx), CUDA_SUCCESS);
  ASSERT_EQ(cuModuleGetFunction(&empty, module, "empty"), CUDA_SUCCESS);
  const int one = 1;
  int back = 0;
  HELD_UP(cuMemcpyHtoD_v2(block_, &one, sizeof one));
  HELD_UP(cuLaunchKernel(empty, 1, 1, 1, 1, 1, 1, 0, stream_, nullptr, nullptr));
  HELD_UP(cuMemcpyDtoH_v2(&back, block_, sizeof back));
  EXPECT_EQ(back, 1);
  HELD_UP(cuMemsetD8Async(block_, 1, kBytes, stream_));
  EXPECT_EQ(cuModuleUnload(module), CUDA_SUCCESS);
}

TEST_F(HandlersAtTheGate, GraphsWait) {
  const CUgraph graph = graph_of_a_fill();
  CUgraphExec exec = nullptr;
  HELD_UP(cuGraphInstantiateWithFlags(&exec, graph, 0));
  for (const unsigned with_memory : {0, 1}) {
    process().graphs_with_memory = with_memory;
    HELD_UP(cuGraphUpload(exec, stream_));
    HELD_UP(cuGraphUpload_ptsz(exec, stream_));
    HELD_UP(cuGraphLaunch(exec, stream_));
    HELD_UP(cuGraphLaunch_ptsz(exec, stream_));
  }
  EXPECT_EQ(cuStreamSynchronize(stream_), CUDA_SUCCESS);
  EXPECT_EQ(cuGraphExecDestroy(exec), CUDA_SUCCESS);
  EXPECT_EQ(cuGraphDestroy(graph), CUDA_SUCCESS);
}

TEST_F(HandlersAtTheGate, ACaptureWaitsAndIsNotCountedBefore) {
  CUgraph graph = nullptr;
  HELD_UP(cuStreamBeginCapture_v2(stream_, CU_STREAM_CAPTURE_MODE_RELAXED));
  EXPECT_EQ(process().captures, 1u);
  ASSERT_EQ(cuStreamEndCapture(stream_, &graph), CUDA_SUCCESS);
  EXPECT_EQ(cuGraphDestroy(graph), CUDA_SUCCESS);

  ASSERT_TRUE(Gate::close(kLong_us) && Gate::shut());
  waits_outside = false;
  std::thread caller([&] {
    EXPECT_EQ(cuCtxSetCurrent(context_), CUDA_SUCCESS);
    EXPECT_EQ(cuStreamBeginCapture_v2(stream_, CU_STREAM_CAPTURE_MODE_RELAXED), CUDA_SUCCESS);
  });
  while (!waits_outside) std::this_thread::yield();
  EXPECT_EQ(process().captures, 0u);
  Gate::open();
  caller.join();
  ASSERT_EQ(cuStreamEndCapture(stream_, &graph), CUDA_SUCCESS);
  EXPECT_EQ(cuGraphDestroy(graph), CUDA_SUCCESS);
}

TEST_F(HandlersAtTheGate, ExportsWait) {
  CUmemAllocationProp prop{};
  prop.type = CU_MEM_ALLOCATION_TYPE_PINNED;
  prop.location = {CU_MEM_LOCATION_TYPE_DEVICE, 0};
  prop.requestedHandleTypes = CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR;
  CUmemGenericAllocationHandle handle = 0;
  ASSERT_EQ(cuMemCreate(&handle, kBytes, &prop, 0), CUDA_SUCCESS);
  int of_handle = -1;
  int of_range = -1;
  CUipcMemHandle ipc{};
  HELD_UP(cuIpcGetMemHandle(&ipc, block_));
  HELD_UP(cuMemExportToShareableHandle(&of_handle, handle, CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR,
                                       0));
  HELD_UP(cuMemGetHandleForAddressRange(&of_range, block_, kBytes,
                                        CU_MEM_RANGE_HANDLE_TYPE_DMA_BUF_FD, 0));
  close(of_handle);
  close(of_range);
  EXPECT_EQ(cuMemRelease(handle), CUDA_SUCCESS);
}

}  // namespace
}  // namespace vram::interpose
