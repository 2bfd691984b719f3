// What a governed call costs, on whatever driver the program finds: prints the median, in
// nanoseconds, of each kind of call. Run it bare and under `vram run`, in turns, on the same
// machine; bench/added_cost does that and prints the differences. Figures from the simulated GPU
// say nothing about a real one.
//
// Each figure is the median of kRounds batches, a batch being enough calls for the clock not to
// matter.

#include <cuda.h>
#include <dlfcn.h>

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <functional>
#include <string>
#include <vector>

namespace {

constexpr int kRounds = 41;

const char kPtx[] = R"(.version 7.0
.target sm_70
.address_size 64
.visible .entry empty() { ret; }
)";

void check(CUresult result, const char* what) {
  if (result == CUDA_SUCCESS) return;
  const char* name = "?";
  cuGetErrorName(result, &name);
  std::fprintf(stderr, "driver_cost: %s: %s\n", what, name);
  std::exit(1);
}
#define CHECK(call) check((call), #call)

double now_ns() {
  using Clock = std::chrono::steady_clock;
  return std::chrono::duration<double, std::nano>(Clock::now().time_since_epoch()).count();
}

// `settle` runs untimed after each batch, so that queues do not fill up.
void report(
    const std::string& name, int batch, const std::function<void()>& call,
    const std::function<void()>& settle = [] {}) {
  std::vector<double> ns;
  for (int round = -2; round < kRounds; ++round) {
    const double start = now_ns();
    for (int i = 0; i < batch; ++i) call();
    const double each = (now_ns() - start) / batch;
    settle();
    if (round >= 0) ns.push_back(each);
  }
  std::sort(ns.begin(), ns.end());
  std::printf("%s %.1f %.1f %.1f\n", name.c_str(), ns[kRounds / 2], ns[kRounds / 10],
              ns[kRounds - 1 - kRounds / 10]);
}

template <typename Function>
Function by_address(const char* name) {
  void* function = nullptr;
  CUdriverProcAddressQueryResult status{};
  CHECK(cuGetProcAddress(name, &function, 12000, CU_GET_PROC_ADDRESS_DEFAULT, &status));
  return reinterpret_cast<Function>(function);
}

void launches(CUstream stream) {
  CUmodule module;
  CUfunction empty;
  CHECK(cuModuleLoadData(&module, kPtx));
  CHECK(cuModuleGetFunction(&empty, module, "empty"));
  const auto settle = [&] { CHECK(cuStreamSynchronize(stream)); };
  const auto launch = by_address<decltype(&cuLaunchKernel)>("cuLaunchKernel");
  report(
      "launch_by_address", 200,
      [&] { launch(empty, 1, 1, 1, 1, 1, 1, 0, stream, nullptr, nullptr); }, settle);
  report(
      "launch_linked", 200,
      [&] { cuLaunchKernel(empty, 1, 1, 1, 1, 1, 1, 0, stream, nullptr, nullptr); }, settle);
  CUgraph graph;
  CUgraphExec exec;
  CHECK(cuStreamBeginCapture(stream, CU_STREAM_CAPTURE_MODE_THREAD_LOCAL));
  CHECK(cuLaunchKernel(empty, 1, 1, 1, 1, 1, 1, 0, stream, nullptr, nullptr));
  CHECK(cuStreamEndCapture(stream, &graph));
  CHECK(cuGraphInstantiate(&exec, graph, 0));
  const auto graph_launch = by_address<decltype(&cuGraphLaunch)>("cuGraphLaunch");
  report(
      "graph_launch", 200, [&] { graph_launch(exec, stream); }, settle);
}

void allocations(CUstream stream) {
  const auto pair = [](const std::string& name, std::size_t bytes, int batch) {
    report("alloc_free_" + name, batch, [=] {
      CUdeviceptr p;
      CHECK(cuMemAlloc(&p, bytes));
      CHECK(cuMemFree(p));
    });
  };
  CUdeviceptr keep;
  CHECK(cuMemAlloc(&keep, 512));  // a slab is there: the cheapest allocation a driver knows
  pair("512B_in_slab", 512, 50);
  CHECK(cuMemFree(keep));
  pair("2MiB", 2 << 20, 20);
  pair("64MiB", 64 << 20, 20);
  CUmemoryPool pool;
  cuuint64_t keep_all = ~0ull;
  CHECK(cuDeviceGetDefaultMemPool(&pool, 0));
  CHECK(cuMemPoolSetAttribute(pool, CU_MEMPOOL_ATTR_RELEASE_THRESHOLD, &keep_all));
  const auto settle = [&] { CHECK(cuStreamSynchronize(stream)); };
  const auto async = [&](const std::string& name, std::size_t bytes) {
    report(
        "async_pair_" + name, 200,
        [&] {
          CUdeviceptr p;
          CHECK(cuMemAllocAsync(&p, bytes, stream));
          CHECK(cuMemFreeAsync(p, stream));
        },
        settle);
  };
  async("1MiB", 1 << 20);
  async("64MiB", 64 << 20);
  CUmemAllocationProp prop{};
  prop.type = CU_MEM_ALLOCATION_TYPE_PINNED;
  prop.location = {CU_MEM_LOCATION_TYPE_DEVICE, 0};
  report("create_release_2MiB", 20, [&] {
    CUmemGenericAllocationHandle handle;
    CHECK(cuMemCreate(&handle, 2 << 20, &prop, 0));
    CHECK(cuMemRelease(handle));
  });
  report("stream_synchronize", 200, settle);
  std::size_t free, total;
  report("mem_get_info", 100, [&] { CHECK(cuMemGetInfo(&free, &total)); });
}

}  // namespace

int main() {
  CUcontext context;
  CUstream stream;
  CHECK(cuInit(0));
  CHECK(cuDevicePrimaryCtxRetain(&context, 0));
  CHECK(cuCtxSetCurrent(context));
  CHECK(cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
  launches(stream);
  allocations(stream);
  return 0;
}
