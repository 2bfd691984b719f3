// Prints how the driver of this machine accounts for memory: the facts of
// docs/design/driver-behaviour.md. Run it bare, on a card that nobody else uses.
//
// Every figure is what NVML says of this process (its row) or of the card, in MiB, as a difference
// to the moment before.

#include <cuda.h>
#include <nvml.h>
#include <unistd.h>

#include <chrono>
#include <cstdio>
#include <functional>
#include <vector>

namespace {

nvmlDevice_t card;

double mib(unsigned long long bytes) { return static_cast<double>(bytes) / (1 << 20); }

double row() {
  nvmlProcessInfo_t rows[64];
  unsigned count = 64;
  if (nvmlDeviceGetComputeRunningProcesses_v3(card, &count, rows) != NVML_SUCCESS) return -1;
  for (unsigned i = 0; i < count; ++i) {
    if (rows[i].pid == static_cast<unsigned>(getpid())) return mib(rows[i].usedGpuMemory);
  }
  return 0;
}

double used() {
  nvmlMemory_v2_t memory{};
  memory.version = nvmlMemory_v2;
  nvmlDeviceGetMemoryInfo_v2(card, &memory);
  return mib(memory.used);
}

const char* name_of(CUresult result) {
  const char* name = "?";
  cuGetErrorName(result, &name);
  return name;
}

// What `step` adds to the process's row and to the card.
void fact(const char* what, const std::function<CUresult()>& step) {
  const double row_before = row();
  const double used_before = used();
  const CUresult result = step();
  std::printf("%-58s row %+10.2f  card %+10.2f  %s\n", what, row() - row_before,
              used() - used_before, result == CUDA_SUCCESS ? "" : name_of(result));
}

void cost(const char* what, int count, const std::function<void()>& call) {
  using Clock = std::chrono::steady_clock;
  double best = 1e18;
  for (int round = 0; round < 5; ++round) {
    const auto start = Clock::now();
    for (int i = 0; i < count; ++i) call();
    const std::chrono::duration<double, std::nano> took = Clock::now() - start;
    best = best < took.count() / count ? best : took.count() / count;
  }
  std::printf("%-58s %.1f ns\n", what, best);
}

void blocks() {
  for (std::size_t bytes :
       {1ul, 512ul, 65536ul, 1048576ul, 1048577ul, 2097152ul, 2097153ul, 4194305ul, 100000000ul}) {
    CUdeviceptr first = 0, second = 0;
    char what[80];
    std::snprintf(what, sizeof what, "cuMemAlloc(%zu)", bytes);
    fact(what, [&] { return cuMemAlloc(&first, bytes); });
    fact("  the same again", [&] { return cuMemAlloc(&second, bytes); });
    fact("  both freed", [&] { return cuMemFree(first), cuMemFree(second); });
  }
  std::vector<CUdeviceptr> many(20000);
  fact("20,000 x 512 B", [&] {
    for (CUdeviceptr& p : many) cuMemAlloc(&p, 512);
    return CUDA_SUCCESS;
  });
  fact("  all but each 2,000th freed", [&] {
    for (std::size_t i = 0; i < many.size(); ++i) {
      if (i % 2000 != 0) cuMemFree(many[i]);
    }
    return CUDA_SUCCESS;
  });
  fact("  the rest freed", [&] {
    for (std::size_t i = 0; i < many.size(); i += 2000) cuMemFree(many[i]);
    return CUDA_SUCCESS;
  });
}

void arrays() {
  CUarray array;
  CUDA_ARRAY_DESCRIPTOR flat{1000, 1000, CU_AD_FORMAT_FLOAT, 1};
  fact("array of 1000 x 1000 floats", [&] { return cuArrayCreate(&array, &flat); });
  cuArrayDestroy(array);
  std::vector<CUarray> small(100);
  CUDA_ARRAY_DESCRIPTOR tile{64, 64, CU_AD_FORMAT_FLOAT, 1};
  fact("100 arrays of 64 x 64 floats", [&] {
    for (CUarray& one : small) cuArrayCreate(&one, &tile);
    return CUDA_SUCCESS;
  });
  for (CUarray one : small) cuArrayDestroy(one);
  CUDA_ARRAY3D_DESCRIPTOR deferred{};
  deferred.Width = deferred.Height = 1000;
  deferred.Format = CU_AD_FORMAT_FLOAT;
  deferred.NumChannels = 1;
  deferred.Flags = CUDA_ARRAY3D_DEFERRED_MAPPING;
  CUDA_ARRAY_MEMORY_REQUIREMENTS needs{};
  fact("the same, mapping deferred", [&] { return cuArray3DCreate(&array, &deferred); });
  cuArrayGetMemoryRequirements(&needs, array, 0);
  std::printf("  its memory requirement: %zu bytes\n", needs.size);
  cuArrayDestroy(array);
}

void virtual_memory() {
  CUmemAllocationProp prop{};
  prop.type = CU_MEM_ALLOCATION_TYPE_PINNED;
  prop.location = {CU_MEM_LOCATION_TYPE_DEVICE, 0};
  constexpr std::size_t kSize = 64 << 20;
  CUmemGenericAllocationHandle handle = 0, again = 0;
  CUdeviceptr at = 0;
  fact("cuMemCreate(64 MiB)", [&] { return cuMemCreate(&handle, kSize, &prop, 0); });
  cuMemAddressReserve(&at, kSize, 0, 0, 0);
  fact("  mapped", [&] { return cuMemMap(at, kSize, 0, handle, 0); });
  fact("  released while mapped", [&] { return cuMemRelease(handle); });
  fact("  retained", [&] { return cuMemRetainAllocationHandle(&again, (void*)at); });
  fact("  unmapped in part", [&] { return cuMemUnmap(at, kSize / 2); });
  fact("  unmapped", [&] { return cuMemUnmap(at, kSize); });
  fact("  released", [&] { return cuMemRelease(again); });
  fact("  released once more", [&] { return cuMemRelease(again); });
}

std::uint64_t reserved(CUmemoryPool pool) {
  cuuint64_t bytes = 0;
  cuMemPoolGetAttribute(pool, CU_MEMPOOL_ATTR_RESERVED_MEM_CURRENT, &bytes);
  return bytes;
}

void pools(CUstream stream) {
  CUmemoryPool pool;
  cuDeviceGetDefaultMemPool(&pool, 0);
  for (std::size_t size : {512ul, 1ul << 20, 31ul << 20, 32ul << 20, 33ul << 20, 1000ul << 20}) {
    CUdeviceptr first = 0, second = 0;
    cuMemAllocAsync(&first, size, stream);
    const double one = mib(reserved(pool));
    cuMemAllocAsync(&second, size, stream);
    const double two = mib(reserved(pool));
    cuMemFreeAsync(first, stream);
    cuMemFreeAsync(second, stream);
    const double freed = mib(reserved(pool));
    cuStreamSynchronize(stream);
    std::printf("pool after %9.3f MiB: %.0f, twice: %.0f, freed: %.0f, synchronised: %.0f\n",
                mib(size), one, two, freed, mib(reserved(pool)));
  }
}

void graphs(CUstream stream) {
  CUDA_MEM_ALLOC_NODE_PARAMS params{};
  params.poolProps.allocType = CU_MEM_ALLOCATION_TYPE_PINNED;
  params.poolProps.location = {CU_MEM_LOCATION_TYPE_DEVICE, 0};
  params.bytesize = 48 << 20;
  CUgraph graph;
  CUgraphNode node, last;
  CUgraphExec exec, other;
  cuGraphCreate(&graph, 0);
  cuGraphAddMemAllocNode(&node, graph, nullptr, 0, &params);
  cuGraphAddMemFreeNode(&last, graph, &node, 1, params.dptr);
  fact("graph with a node of 48 MiB, instantiated",
       [&] { return cuGraphInstantiate(&exec, graph, 0); });
  fact("  a second exec of it", [&] { return cuGraphInstantiate(&other, graph, 0); });
  fact("  launched", [&] { return cuGraphLaunch(exec, stream), cuStreamSynchronize(stream); });
  fact("  exec destroyed", [&] { return cuGraphExecDestroy(exec); });
  fact("  trimmed", [&] { return cuDeviceGraphMemTrim(0); });
}

void captures(CUstream stream) {
  CUmemoryPool pool;
  CUgraph graph;
  cuuint64_t bytes = 0;
  cuDeviceGetDefaultMemPool(&pool, 0);
  for (CUstreamCaptureMode mode : {CU_STREAM_CAPTURE_MODE_GLOBAL, CU_STREAM_CAPTURE_MODE_RELAXED}) {
    cuStreamBeginCapture(stream, CU_STREAM_CAPTURE_MODE_GLOBAL);
    cuThreadExchangeStreamCaptureMode(&mode);
    const CUresult asked =
        cuMemPoolGetAttribute(pool, CU_MEMPOOL_ATTR_RESERVED_MEM_CURRENT, &bytes);
    cuThreadExchangeStreamCaptureMode(&mode);
    std::printf("pool attribute in a capture: %s; the capture: %s\n", name_of(asked),
                name_of(cuStreamEndCapture(stream, &graph)));
  }
}

void contexts_and_modules() {
  static const char kPtx[] = R"(.version 7.0
.target sm_70
.address_size 64
.global .align 16 .b8 big[50000000];
.visible .entry deep(.param .u64 p) {
  .reg .b64 %rd<4>; .local .align 4 .b8 loc[65536];
  ld.param.u64 %rd1, [p]; mov.u64 %rd2, loc; st.local.u64 [%rd2], %rd1; ret; }
)";
  CUmodule module;
  CUfunction deep;
  CUdeviceptr argument = 0;
  void* arguments[] = {&argument};
  fact("stack of 64 KiB a thread", [] { return cuCtxSetLimit(CU_LIMIT_STACK_SIZE, 65536); });
  fact("  back to 1 KiB", [] { return cuCtxSetLimit(CU_LIMIT_STACK_SIZE, 1024); });
  fact("malloc heap of 256 MiB",
       [] { return cuCtxSetLimit(CU_LIMIT_MALLOC_HEAP_SIZE, 256 << 20); });
  fact("module with a variable of 50 MB", [&] { return cuModuleLoadData(&module, kPtx); });
  fact("  function found", [&] { return cuModuleGetFunction(&deep, module, "deep"); });
  fact("  launched, 64 KiB of local memory a thread", [&] {
    return cuLaunchKernel(deep, 1, 1, 1, 32, 1, 1, 0, nullptr, arguments, nullptr),
           cuCtxSynchronize();
  });
  fact("  unloaded", [&] { return cuModuleUnload(module); });
}

void child_graphs(CUstream stream) {
  CUgraph parent, child;
  CUgraphNode node;
  CUgraphExec exec;
  CUDA_MEM_ALLOC_NODE_PARAMS memory{};
  memory.poolProps.allocType = CU_MEM_ALLOCATION_TYPE_PINNED;
  memory.poolProps.location = {CU_MEM_LOCATION_TYPE_DEVICE, 0};
  memory.bytesize = 48 << 20;
  cuGraphCreate(&parent, 0);
  cuGraphCreate(&child, 0);
  cuGraphAddMemAllocNode(&node, child, nullptr, 0, &memory);
  fact("graph with a memory node as a child, cloned",
       [&] { return cuGraphAddChildGraphNode(&node, parent, nullptr, 0, child); });
  CUgraphNodeParams moved{};
  moved.type = CU_GRAPH_NODE_TYPE_GRAPH;
  moved.graph = {child, CU_GRAPH_CHILD_GRAPH_OWNERSHIP_MOVE};
  fact("  moved", [&] { return cuGraphAddNode(&node, parent, nullptr, nullptr, 0, &moved); });
  fact("  the child destroyed", [&] { return cuGraphDestroy(child); });
  fact("  the child instantiated", [&] { return cuGraphInstantiate(&exec, child, 0); });
  fact("  the parent instantiated", [&] { return cuGraphInstantiate(&exec, parent, 0); });
  fact("  launched", [&] { return cuGraphLaunch(exec, stream), cuStreamSynchronize(stream); });
  fact("  freed, trimmed", [&] { return cuMemFree(memory.dptr), cuDeviceGraphMemTrim(0); });
}

void green_contexts() {
  CUdevResource all{}, part{};
  CUdevResourceDesc description;
  CUgreenCtx green[2];
  CUstream stream;
  unsigned groups = 1;
  cuDeviceGetDevResource(0, &all, CU_DEV_RESOURCE_TYPE_SM);
  std::printf("multiprocessors %u, smallest part %u, alignment %u\n", all.sm.smCount,
              all.sm.minSmPartitionSize, all.sm.smCoscheduledAlignment);
  cuDevSmResourceSplitByCount(&part, &groups, &all, nullptr, 0, 32);
  cuDevResourceGenerateDesc(&description, &part, 1);
  for (CUgreenCtx& one : green) {
    fact("green context",
         [&] { return cuGreenCtxCreate(&one, description, 0, CU_GREEN_CTX_DEFAULT_STREAM); });
  }
  fact("  a stream of it",
       [&] { return cuGreenCtxStreamCreate(&stream, green[0], CU_STREAM_NON_BLOCKING, 0); });
  fact("  destroyed", [&] { return cuStreamDestroy(stream); });
  for (CUgreenCtx one : green) {
    fact("  green context destroyed", [&] { return cuGreenCtxDestroy(one); });
  }
  fact("  destroyed again", [&] { return cuGreenCtxDestroy(green[0]); });
}

void dma_buffers() {
  constexpr size_t kSize = 64 << 20;
  CUdeviceptr block = 0;
  int descriptor = -1;
  cuMemAlloc(&block, kSize);
  fact("64 MiB as a DMA buffer", [&] {
    return cuMemGetHandleForAddressRange(&descriptor, block, kSize,
                                         CU_MEM_RANGE_HANDLE_TYPE_DMA_BUF_FD, 0);
  });
  fact("  freed", [&] { return cuMemFree(block); });
  fact("  closed", [&] { return close(descriptor), CUDA_SUCCESS; });
}

void wrong_imports() {
  CUDA_EXTERNAL_MEMORY_HANDLE_DESC memory{};
  CUexternalMemory imported;
  memory.type = CU_EXTERNAL_MEMORY_HANDLE_TYPE_OPAQUE_FD;
  memory.size = 4096;
  for (const int descriptor : {-1, STDERR_FILENO}) {
    memory.handle.fd = descriptor;
    fact("import of a descriptor that is no memory",
         [&] { return cuImportExternalMemory(&imported, &memory); });
  }
  fact("destruction of no external memory", [] { return cuDestroyExternalMemory(nullptr); });
}

void costs(CUstream stream) {
  CUdevice device;
  CUcontext context;
  CUmemoryPool pool;
  CUstreamCaptureStatus status;
  cuuint64_t bytes;
  std::size_t free, total;
  cuDeviceGetDefaultMemPool(&pool, 0);
  cost("cuCtxGetDevice", 10000, [&] { cuCtxGetDevice(&device); });
  cost("cuCtxGetCurrent", 10000, [&] { cuCtxGetCurrent(&context); });
  cost("cuStreamGetCtx", 10000, [&] { cuStreamGetCtx(stream, &context); });
  cost("cuStreamIsCapturing", 10000, [&] { cuStreamIsCapturing(stream, &status); });
  cost("cuDeviceGetMemPool", 10000, [&] { cuDeviceGetMemPool(&pool, 0); });
  cost("cuMemPoolGetAttribute", 10000,
       [&] { cuMemPoolGetAttribute(pool, CU_MEMPOOL_ATTR_RESERVED_MEM_CURRENT, &bytes); });
  cost("cuDeviceGetGraphMemAttribute", 10000,
       [&] { cuDeviceGetGraphMemAttribute(0, CU_GRAPH_MEM_ATTR_RESERVED_MEM_CURRENT, &bytes); });
  cost("cuMemGetInfo", 1000, [&] { cuMemGetInfo(&free, &total); });
  cost("NVML process list", 50, [] { row(); });
  cost("NVML memory info", 100, [] { used(); });
}

}  // namespace

int main() {
  CUcontext context, second;
  CUstream stream;
  if (nvmlInit_v2() != NVML_SUCCESS || nvmlDeviceGetHandleByIndex_v2(0, &card) != NVML_SUCCESS) {
    std::fprintf(stderr, "driver_facts: no NVML, no card\n");
    return 1;
  }
  fact("cuInit", [] { return cuInit(0); });
  fact("primary context", [&] { return cuDevicePrimaryCtxRetain(&context, 0); });
  cuCtxSetCurrent(context);
  fact("second context of this process", [&] { return cuCtxCreate(&second, nullptr, 0, 0); });
  fact("  destroyed", [&] { return cuCtxDestroy(second); });
  cuCtxSetCurrent(context);
  std::vector<CUstream> streams(64);
  fact("64 streams", [&] {
    for (CUstream& one : streams) cuStreamCreate(&one, CU_STREAM_NON_BLOCKING);
    return CUDA_SUCCESS;
  });
  stream = streams[0];
  blocks();
  arrays();
  virtual_memory();
  pools(stream);
  graphs(stream);
  captures(stream);
  child_graphs(stream);
  green_contexts();
  dma_buffers();
  wrong_imports();
  contexts_and_modules();
  costs(stream);
  return 0;
}
