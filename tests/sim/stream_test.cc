// Order and time: what runs when, and who waits for whom.
#include <atomic>
#include <thread>

#include "execution_test.h"

namespace vram::sim_test {
namespace {

using Streams = Execution;

TEST_F(Streams, ALaunchReturnsBeforeItsKernelHasRun) {
  ASSERT_EQ(spin(100 * kMillisecond, stream_), CUDA_SUCCESS);
  EXPECT_EQ(cuStreamQuery(stream_), CUDA_ERROR_NOT_READY);
  EXPECT_EQ(cuStreamSynchronize(stream_), CUDA_SUCCESS);
  EXPECT_EQ(cuStreamQuery(stream_), CUDA_SUCCESS);
}

TEST_F(Streams, WorkOfOneStreamRunsInItsOrder) {
  ASSERT_EQ(fill(words_, 1, 1, stream_), CUDA_SUCCESS);
  ASSERT_EQ(spin(20 * kMillisecond, stream_), CUDA_SUCCESS);
  ASSERT_EQ(fill(words_, 1, 2, stream_), CUDA_SUCCESS);
  EXPECT_EQ(word(stream_), 2u);
}

TEST_F(Streams, NonBlockingStreamsDoNotWaitForEachOther) {
  ASSERT_EQ(spin(200 * kMillisecond, stream_), CUDA_SUCCESS);
  ASSERT_EQ(fill(words_, 1, 7, other_), CUDA_SUCCESS);
  EXPECT_EQ(word(other_), 7u);
  EXPECT_EQ(cuStreamQuery(stream_), CUDA_ERROR_NOT_READY);
  EXPECT_EQ(cuStreamSynchronize(stream_), CUDA_SUCCESS);
}

TEST_F(Streams, AnEventOrdersTwoStreams) {
  CUevent event = nullptr;
  ASSERT_EQ(cuEventCreate(&event, CU_EVENT_DISABLE_TIMING), CUDA_SUCCESS);
  ASSERT_EQ(fill(words_, 1, 1, stream_), CUDA_SUCCESS);
  ASSERT_EQ(spin(50 * kMillisecond, stream_), CUDA_SUCCESS);
  ASSERT_EQ(fill(words_, 1, 2, stream_), CUDA_SUCCESS);
  ASSERT_EQ(cuEventRecord(event, stream_), CUDA_SUCCESS);
  EXPECT_EQ(cuEventQuery(event), CUDA_ERROR_NOT_READY);
  ASSERT_EQ(cuStreamWaitEvent(other_, event, 0), CUDA_SUCCESS);
  EXPECT_EQ(word(other_), 2u);
  EXPECT_EQ(cuEventQuery(event), CUDA_SUCCESS);
  EXPECT_EQ(cuEventDestroy(event), CUDA_SUCCESS);
}

TEST_F(Streams, TheLegacyStreamWaitsForBlockingStreamsAndTheyForIt) {
  CUstream blocking = nullptr;
  ASSERT_EQ(cuStreamCreate(&blocking, CU_STREAM_DEFAULT), CUDA_SUCCESS);
  ASSERT_EQ(spin(50 * kMillisecond, blocking), CUDA_SUCCESS);
  ASSERT_EQ(fill(words_, 1, 1, blocking), CUDA_SUCCESS);
  ASSERT_EQ(spin(50 * kMillisecond, nullptr), CUDA_SUCCESS);
  ASSERT_EQ(fill(words_, 1, 2, nullptr), CUDA_SUCCESS);
  EXPECT_EQ(word(blocking), 2u);
  EXPECT_EQ(cuStreamDestroy(blocking), CUDA_SUCCESS);
}

TEST_F(Streams, TheLegacyStreamDoesNotWaitForNonBlockingStreams) {
  ASSERT_EQ(spin(200 * kMillisecond, stream_), CUDA_SUCCESS);
  ASSERT_EQ(fill(words_, 1, 3, nullptr), CUDA_SUCCESS);
  EXPECT_EQ(word(nullptr), 3u);
  EXPECT_EQ(cuStreamQuery(stream_), CUDA_ERROR_NOT_READY);
  EXPECT_EQ(cuStreamSynchronize(stream_), CUDA_SUCCESS);
}

TEST_F(Streams, EveryThreadHasAPerThreadStreamOfItsOwn) {
  ASSERT_EQ(spin(200 * kMillisecond, CU_STREAM_PER_THREAD), CUDA_SUCCESS);
  std::thread([] {
    CUcontext context = nullptr;
    ASSERT_EQ(cuDevicePrimaryCtxRetain(&context, 0), CUDA_SUCCESS);
    ASSERT_EQ(cuCtxSetCurrent(context), CUDA_SUCCESS);
    EXPECT_EQ(cuStreamQuery(CU_STREAM_PER_THREAD), CUDA_SUCCESS);
    EXPECT_EQ(cuDevicePrimaryCtxRelease(0), CUDA_SUCCESS);
  }).join();
  EXPECT_EQ(cuStreamQuery(CU_STREAM_PER_THREAD), CUDA_ERROR_NOT_READY);
  EXPECT_EQ(cuStreamSynchronize(CU_STREAM_PER_THREAD), CUDA_SUCCESS);
}

TEST_F(Streams, TheStreamOfAThreadThatHasEndedFinishesItsWork) {
  std::thread([this] {
    ASSERT_EQ(use_primary(), CUDA_SUCCESS);
    ASSERT_EQ(spin(50 * kMillisecond, CU_STREAM_PER_THREAD), CUDA_SUCCESS);
    ASSERT_EQ(fill(words_, 1, 21, CU_STREAM_PER_THREAD), CUDA_SUCCESS);
    EXPECT_EQ(cuDevicePrimaryCtxRelease(0), CUDA_SUCCESS);
  }).join();
  ASSERT_EQ(cuCtxSynchronize(), CUDA_SUCCESS);
  EXPECT_EQ(word(stream_), 21u);
}

TEST_F(Streams, TheContextWaitsForAllOfThem) {
  ASSERT_EQ(spin(20 * kMillisecond, stream_), CUDA_SUCCESS);
  ASSERT_EQ(spin(40 * kMillisecond, other_), CUDA_SUCCESS);
  EXPECT_EQ(cuCtxSynchronize(), CUDA_SUCCESS);
  EXPECT_EQ(cuStreamQuery(stream_), CUDA_SUCCESS);
  EXPECT_EQ(cuStreamQuery(other_), CUDA_SUCCESS);
}

TEST_F(Streams, EventsMeasureTheTimeBetweenThem) {
  CUevent begin = nullptr;
  CUevent end = nullptr;
  ASSERT_EQ(cuEventCreate(&begin, CU_EVENT_DEFAULT), CUDA_SUCCESS);
  ASSERT_EQ(cuEventCreate(&end, CU_EVENT_DEFAULT), CUDA_SUCCESS);
  float ms = 0;
  EXPECT_EQ(cuEventElapsedTime(&ms, begin, end), CUDA_ERROR_INVALID_HANDLE) << "not recorded";
  ASSERT_EQ(cuEventRecord(begin, stream_), CUDA_SUCCESS);
  ASSERT_EQ(spin(30 * kMillisecond, stream_), CUDA_SUCCESS);
  ASSERT_EQ(cuEventRecord(end, stream_), CUDA_SUCCESS);
  EXPECT_EQ(cuEventElapsedTime(&ms, begin, end), CUDA_ERROR_NOT_READY);
  ASSERT_EQ(cuEventSynchronize(end), CUDA_SUCCESS);
  ASSERT_EQ(cuEventElapsedTime(&ms, begin, end), CUDA_SUCCESS);
  EXPECT_GE(ms, 30.0f);
  EXPECT_EQ(cuEventDestroy(begin), CUDA_SUCCESS);
  EXPECT_EQ(cuEventDestroy(end), CUDA_SUCCESS);
}

struct HostCalls {
  std::atomic<int> calls{0};
  std::atomic<CUresult> inside{CUDA_SUCCESS};
};

void count_and_call_back(void* argument) {
  auto* state = static_cast<HostCalls*>(argument);
  state->inside = cuStreamQuery(nullptr);
  ++state->calls;
}

TEST_F(Streams, AHostFunctionRunsInOrderAndMayNotCallTheDriver) {
  HostCalls state;
  ASSERT_EQ(spin(20 * kMillisecond, stream_), CUDA_SUCCESS);
  ASSERT_EQ(cuLaunchHostFunc(stream_, count_and_call_back, &state), CUDA_SUCCESS);
  EXPECT_EQ(state.calls, 0);
  ASSERT_EQ(cuStreamSynchronize(stream_), CUDA_SUCCESS);
  EXPECT_EQ(state.calls, 1);
  EXPECT_EQ(state.inside, CUDA_ERROR_NOT_PERMITTED);
}

TEST_F(Streams, AWordInStreamOrderedMemoryIsRefused) {
  CUdeviceptr word = 0;
  ASSERT_EQ(cuMemAllocAsync(&word, 4, stream_), CUDA_SUCCESS);
  EXPECT_EQ(cuStreamWaitValue32(stream_, word, 1, CU_STREAM_WAIT_VALUE_EQ),
            CUDA_ERROR_INVALID_VALUE);
  EXPECT_EQ(cuStreamWriteValue32(stream_, word, 1, 0), CUDA_ERROR_INVALID_VALUE);
  EXPECT_EQ(cuMemFreeAsync(word, stream_), CUDA_SUCCESS);
}

TEST_F(Streams, AStreamWaitsForAWordOfMemory) {
  ASSERT_EQ(cuMemsetD32Async(words_, 0, 2, stream_), CUDA_SUCCESS);
  ASSERT_EQ(cuStreamSynchronize(stream_), CUDA_SUCCESS);
  ASSERT_EQ(cuStreamWaitValue32(stream_, words_, 5, CU_STREAM_WAIT_VALUE_GEQ), CUDA_SUCCESS);
  ASSERT_EQ(cuStreamWriteValue32(stream_, words_ + 4, 9, 0), CUDA_SUCCESS);
  EXPECT_EQ(cuStreamQuery(stream_), CUDA_ERROR_NOT_READY);
  ASSERT_EQ(cuStreamWriteValue32(other_, words_, 5, 0), CUDA_SUCCESS);
  ASSERT_EQ(cuStreamSynchronize(stream_), CUDA_SUCCESS);
  uint32_t second = 0;
  ASSERT_EQ(cuMemcpyDtoH(&second, words_ + 4, sizeof(second)), CUDA_SUCCESS);
  EXPECT_EQ(second, 9u);
}

TEST_F(Streams, ADestroyedStreamFinishesItsWork) {
  CUstream stream = nullptr;
  ASSERT_EQ(cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING), CUDA_SUCCESS);
  ASSERT_EQ(spin(50 * kMillisecond, stream), CUDA_SUCCESS);
  ASSERT_EQ(fill(words_, 1, 11, stream), CUDA_SUCCESS);
  ASSERT_EQ(cuStreamDestroy(stream), CUDA_SUCCESS);
  EXPECT_EQ(cuStreamQuery(stream), CUDA_ERROR_INVALID_HANDLE);
  ASSERT_EQ(cuCtxSynchronize(), CUDA_SUCCESS);
  EXPECT_EQ(word(stream_), 11u);
}

TEST_F(Streams, CostTheCardHalfAMebibyteEach) {
  const size_t before = used();
  std::array<CUstream, 64> streams{};
  for (CUstream& stream : streams) ASSERT_EQ(cuStreamCreate(&stream, 0), CUDA_SUCCESS);
  EXPECT_EQ(used() - before, 32 * kMiB);
  for (CUstream stream : streams) EXPECT_EQ(cuStreamDestroy(stream), CUDA_SUCCESS);
}

// The free comes after the work in the stream, though the call comes before the work has run.
TEST_F(Streams, WorkReachesABlockThatIsFreedAfterIt) {
  CUdeviceptr block = 0;
  ASSERT_EQ(cuMemAllocAsync(&block, kMiB, stream_), CUDA_SUCCESS);
  ASSERT_EQ(spin(50 * kMillisecond, stream_), CUDA_SUCCESS);
  ASSERT_EQ(fill(block, 1, 12, stream_), CUDA_SUCCESS);
  ASSERT_EQ(cuMemsetD32Async(block + 4, 13, 1, stream_), CUDA_SUCCESS);
  ASSERT_EQ(cuMemcpyDtoDAsync(words_, block, 8, stream_), CUDA_SUCCESS);
  ASSERT_EQ(cuMemFreeAsync(block, stream_), CUDA_SUCCESS);
  EXPECT_EQ(cuMemsetD8Async(block, 0, 1, stream_), CUDA_ERROR_INVALID_VALUE);
  EXPECT_EQ(word(stream_), 12u);
}

TEST_F(Streams, ThreadsMaySubmitToOneStreamAtOnce) {
  constexpr int kThreads = 8;
  constexpr int kCalls = 200;
  std::atomic<int> calls{0};
  std::vector<std::thread> threads;
  for (int i = 0; i < kThreads; ++i) {
    threads.emplace_back([&] {
      CUcontext context = nullptr;
      ASSERT_EQ(cuDevicePrimaryCtxRetain(&context, 0), CUDA_SUCCESS);
      ASSERT_EQ(cuCtxSetCurrent(context), CUDA_SUCCESS);
      for (int k = 0; k < kCalls; ++k) {
        ASSERT_EQ(
            cuLaunchHostFunc(
                stream_, [](void* count) { ++*static_cast<std::atomic<int>*>(count); }, &calls),
            CUDA_SUCCESS);
      }
      EXPECT_EQ(cuDevicePrimaryCtxRelease(0), CUDA_SUCCESS);
    });
  }
  for (std::thread& thread : threads) thread.join();
  ASSERT_EQ(cuStreamSynchronize(stream_), CUDA_SUCCESS);
  EXPECT_EQ(calls, kThreads * kCalls);
}

}  // namespace
}  // namespace vram::sim_test
