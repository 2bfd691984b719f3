// trace_events WHAT: takes and gives back known amounts, so that a recording of it is known.
//
//   ways                     every way once
//   contexts                 what ends with a context
//   imports                  a handle that is exported and imported
//   execs                    takes a block and becomes another program, which takes its own
//   threads THREADS ROUNDS   threads race; prints how many blocks were taken
//   children COUNT           a forked process each takes (I + 1) KiB; the first keeps them
//   outlives FILE            a child lives on, takes 10 blocks when FILE is there, and removes it
//   killed BLOCKS            takes so many blocks, then its threads race until it kills itself
#include <sys/wait.h>
#include <unistd.h>

#include <csignal>
#include <cstring>
#include <string>
#include <thread>
#include <vector>

#include "program.h"

namespace {

void linear() {
  CUdeviceptr block = 0;
  std::size_t pitch = 0;
  OK(cuMemAlloc(&block, 1000));
  OK(cuMemFree(block));
  OK(cuMemAlloc(&block, 3 * kMiB));
  OK(cuMemFree(block));
  OK(cuMemAllocPitch(&block, &pitch, 100, 10, 4));
  OK(cuMemFree(block));
  OK(cuMemAllocManaged(&block, 2000, CU_MEM_ATTACH_GLOBAL));
  OK(cuMemFree(block));
}

void ordered(CUstream stream, CUstream other) {
  CUdeviceptr block = 0;
  CUmemoryPool pool = nullptr;
  const CUmemPoolProps props = pool_on_device(0);
  OK(cuMemAllocAsync(&block, 100, stream));
  OK(cuMemFreeAsync(block, stream));
  OK(cuMemAllocAsync(&block, 101, stream));
  OK(cuMemFreeAsync(block, other));
  OK(cuMemAllocAsync(&block, 102, nullptr));
  OK(cuMemFree(block));
  OK(cuMemAllocAsync(&block, 103, CU_STREAM_PER_THREAD));
  OK(cuMemFreeAsync(block, CU_STREAM_LEGACY));
  OK(cuMemAlloc(&block, 104));
  OK(cuMemFreeAsync(block, stream));
  OK(cuMemPoolCreate(&pool, &props));
  OK(cuMemAllocFromPoolAsync(&block, 105, pool, other));
  OK(cuMemFreeAsync(block, other));
  OK(cuStreamSynchronize(other));
  OK(cuMemPoolDestroy(pool));
}

void virtual_memory() {
  const CUmemAllocationProp prop = on_device(0);
  CUmemGenericAllocationHandle handle = 0;
  CUdeviceptr at = 0;
  OK(cuMemCreate(&handle, 2 * kMiB, &prop, 0));
  OK(cuMemRelease(handle));
  OK(cuMemCreate(&handle, 4 * kMiB, &prop, 0));
  OK(cuMemAddressReserve(&at, 4 * kMiB, 0, 0, 0));
  OK(cuMemMap(at, 4 * kMiB, 0, handle, 0));
  OK(cuMemRelease(handle));
  // The mapping holds it.
  CHECK_IS(cuMemRelease(handle), CUDA_ERROR_INVALID_VALUE);
  OK(cuMemUnmap(at, 4 * kMiB));
  OK(cuMemAddressFree(at, 4 * kMiB));
}

void arrays() {
  const CUDA_ARRAY_DESCRIPTOR flat = {64, 32, CU_AD_FORMAT_FLOAT, 2};
  CUDA_ARRAY3D_DESCRIPTOR deep = {};
  deep.Width = deep.Height = 16;
  deep.Format = CU_AD_FORMAT_HALF;
  deep.NumChannels = 1;
  CUarray array = nullptr;
  CUmipmappedArray mipmap = nullptr;
  OK(cuArrayCreate(&array, &flat));
  OK(cuArrayDestroy(array));
  OK(cuMipmappedArrayCreate(&mipmap, &deep, 2));
  OK(cuMipmappedArrayDestroy(mipmap));
}

void graphs(CUstream stream) {
  CUgraph graph = nullptr;
  CUgraphExec exec = nullptr;
  CUdeviceptr block = 0;
  OK(cuStreamBeginCapture(stream, CU_STREAM_CAPTURE_MODE_GLOBAL));
  OK(cuMemAllocAsync(&block, 5000, stream));
  OK(cuMemFreeAsync(block, stream));
  OK(cuStreamEndCapture(stream, &graph));
  OK(cuGraphInstantiate(&exec, graph, 0));
  OK(cuGraphLaunch(exec, stream));
  OK(cuStreamSynchronize(stream));
  OK(cuGraphExecDestroy(exec));
  OK(cuGraphDestroy(graph));
}

void failures() {
  CUdeviceptr block = 0;
  CHECK_IS(cuMemAlloc(&block, kGiB << 10), CUDA_ERROR_OUT_OF_MEMORY);
  CHECK_IS(cuMemAllocAsync(&block, kGiB << 10, nullptr), CUDA_ERROR_OUT_OF_MEMORY);
  CHECK_IS(cuMemAlloc(&block, 0), CUDA_ERROR_INVALID_VALUE);
  // A free that fails frees nothing: of these the last but one does.
  CUstream gone = nullptr;
  OK(cuStreamCreate(&gone, CU_STREAM_NON_BLOCKING));
  OK(cuStreamDestroy(gone));
  OK(cuMemAlloc(&block, 4 * kMiB));
  CHECK(cuMemFreeAsync(block, gone) != CUDA_SUCCESS);
  CHECK(cuMemFree(block + 4096) != CUDA_SUCCESS);
  OK(cuMemFree(block));
  CHECK(cuMemFree(block) != CUDA_SUCCESS);
}

void ways() {
  CUstream stream = nullptr;
  CUstream other = nullptr;
  CUdeviceptr left_over = 0;
  OK(cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
  OK(cuStreamCreate(&other, CU_STREAM_NON_BLOCKING));
  linear();
  ordered(stream, other);
  virtual_memory();
  arrays();
  graphs(stream);
  failures();
  OK(cuMemAlloc(&left_over, 7));
}

void contexts() {
  CUcontext made = nullptr;
  CUdeviceptr in_made = 0;
  CUdeviceptr in_primary = 0;
  CUdeviceptr in_pool = 0;
  OK(cuMemAlloc(&in_primary, 1));
  OK(cuMemAllocAsync(&in_pool, 2, nullptr));
#if CUDA_VERSION >= 13000
  OK(cuCtxCreate(&made, nullptr, 0, 0));
#else
  OK(cuCtxCreate(&made, 0, 0));
#endif
  OK(cuMemAlloc(&in_made, 3));
  OK(cuCtxDestroy(made));
  OK(cuDevicePrimaryCtxReset(0));
}

void imports() {
  CUmemAllocationProp prop = on_device(0);
  prop.requestedHandleTypes = CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR;
  CUmemGenericAllocationHandle handle = 0;
  CUmemGenericAllocationHandle again = 0;
  int file = -1;
  OK(cuMemCreate(&handle, 2 * kMiB, &prop, 0));
  OK(cuMemExportToShareableHandle(&file, handle, CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR, 0));
  OK(cuMemRelease(handle));
  OK(cuMemImportFromShareableHandle(&again, reinterpret_cast<void*>(std::intptr_t{file}),
                                    CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR));
  close(file);
  OK(cuMemRelease(again));
}

// Blocks of many sizes, by two ways; half of them are given back by a neighbour.
void race(int threads, int rounds) {
  std::vector<std::vector<CUdeviceptr>> handed(threads);
  std::vector<std::thread> running;
  CUcontext context = nullptr;
  OK(cuCtxGetCurrent(&context));
  for (int t = 0; t < threads; ++t) {
    running.emplace_back([&, t] {
      OK(cuCtxSetCurrent(context));
      for (int i = 0; i < rounds; ++i) {
        CUdeviceptr block = 0;
        const std::size_t bytes = 1 + static_cast<std::size_t>(t * rounds + i) % 30000;
        if (i % 3 == 0) {
          OK(cuMemAllocAsync(&block, bytes, nullptr));
        } else {
          OK(cuMemAlloc(&block, bytes));
        }
        if (i % 2 == 0) {
          handed[t].push_back(block);
        } else {
          OK(cuMemFree(block));
        }
      }
    });
  }
  for (std::thread& thread : running) thread.join();
  running.clear();
  for (int t = 0; t < threads; ++t) {
    running.emplace_back([&, t] {
      OK(cuCtxSetCurrent(context));
      for (const CUdeviceptr block : handed[(t + 1) % threads]) OK(cuMemFree(block));
    });
  }
  for (std::thread& thread : running) thread.join();
  std::printf("%d\n", threads * rounds);
}

void children(int count) {
  for (int i = 0; i < count; ++i) {
    const pid_t child = fork();
    CHECK(child >= 0);
    if (child != 0) continue;
    CUdeviceptr block = 0;
    start();
    OK(cuMemAlloc(&block, static_cast<std::size_t>(i + 1) * kKiB));
    if (i > 0) OK(cuMemFree(block));
    _exit(0);
  }
  int status = 0;
  while (wait(&status) > 0) CHECK_IS(status, 0);
}

void outlives(const char* file) {
  const pid_t child = fork();
  CHECK(child >= 0);
  if (child != 0) return;
  CUdeviceptr block = 0;
  start();
  while (access(file, F_OK) != 0) usleep(1000);
  for (int i = 0; i < 10; ++i) OK(cuMemAlloc(&block, 100));
  unlink(file);
  _exit(0);
}

void killed(int count) {
  std::vector<CUdeviceptr> blocks(count);
  for (CUdeviceptr& block : blocks) OK(cuMemAlloc(&block, 12345));
  std::vector<std::thread> running;
  CUcontext context = nullptr;
  OK(cuCtxGetCurrent(&context));
  for (int t = 0; t < 4; ++t) {
    running.emplace_back([context] {
      OK(cuCtxSetCurrent(context));
      for (;;) {
        CUdeviceptr block = 0;
        OK(cuMemAlloc(&block, 54321));
        OK(cuMemFree(block));
      }
    });
  }
  usleep(100'000);
  raise(SIGKILL);
}

}  // namespace

int main(int argc, char** argv) {
  const std::string what = argc > 1 ? argv[1] : "";
  const auto number = [&](int at) { return at < argc ? std::atoi(argv[at]) : 0; };
  // These start CUDA in their children.
  if (what == "children") return children(number(2)), 0;
  if (what == "outlives") return outlives(argv[2]), 0;
  start();
  if (what == "ways") ways();
  if (what == "contexts") contexts();
  if (what == "imports") imports();
  if (what == "execs") {
    CUdeviceptr block = 0;
    OK(cuMemAlloc(&block, 9));
    execl("/proc/self/exe", argv[0], "contexts", nullptr);
  }
  if (what == "threads") race(number(2), number(3));
  if (what == "killed") killed(number(2));
  return 0;
}
