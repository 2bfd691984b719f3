// random_calls SEED COUNT: a sequence of calls that only the seed decides, right ones and wrong
// ones, over every way to take memory. Prints each call with its result, and whatever it tells that
// is not an address. A driver with room enough gives the same text whatever stands before it.
#include <cstring>
#include <functional>
#include <random>
#include <vector>

#include "program.h"

namespace {

std::mt19937_64 random_bits;

std::uint64_t below(std::uint64_t n) { return random_bits() % n; }

void say(const char* what, CUresult result) { std::printf("%s %d\n", what, result); }

// Gives something back, against injected failures if need be.
template <typename Call>
bool persist(const char* what, Call call) {
  for (int i = 0; i < 5; ++i) {
    const CUresult result = call();
    say(what, result);
    if (result == CUDA_SUCCESS) return true;
  }
  return false;
}

template <typename T>
T pick(const std::vector<T>& from) {
  return from[below(from.size())];
}

template <typename T>
void forget(std::vector<T>* list, T value) {
  for (std::size_t i = 0; i < list->size(); ++i) {
    if ((*list)[i] == value) {
      list->erase(list->begin() + static_cast<std::ptrdiff_t>(i));
      return;
    }
  }
}

// Everything live is kept under some GiB, so that a refusal is never a matter of room.
constexpr std::size_t kMostLive = 48;

std::size_t any_size() {
  static const std::vector<std::size_t> sizes = {
      1,        16,       512,          513,      64 * kKiB, 700 * kKiB, kMiB - 1, kMiB,
      kMiB + 1, 2 * kMiB, 2 * kMiB + 1, 3 * kMiB, 33 * kMiB, 40 * kMiB,  64 * kMiB};
  static const std::vector<std::size_t> absurd = {
      0,        std::size_t{1} << 40, std::size_t{1} << 62,     std::size_t{1} << 63,
      SIZE_MAX, SIZE_MAX - 511,       SIZE_MAX - (2 * kMiB - 1)};
  return below(12) == 0 ? pick(absurd) : pick(sizes);
}

CUdeviceptr wrong_address(const std::vector<CUdeviceptr>& live) {
  switch (below(4)) {
    case 0:
      return 0;
    case 1:
      return 0x1234500000;
    case 2:
      return live.empty() ? 8 : pick(live) + 8;
    default:
      return ~CUdeviceptr{0};
  }
}

struct Mapped {
  CUdeviceptr at;
  std::size_t bytes;
  bool operator==(const Mapped& other) const { return at == other.at; }
};

struct Physical {
  CUmemGenericAllocationHandle handle;
  std::size_t bytes;
  bool operator==(const Physical& other) const { return handle == other.handle; }
};

struct Live {
  std::vector<CUdeviceptr> blocks;
  std::vector<CUdeviceptr> ordered;  // stream-ordered
  std::vector<CUarray> arrays;
  std::vector<CUmipmappedArray> mipmaps;
  std::vector<Physical> physical;
  std::vector<Mapped> mapped;
  std::vector<CUmemoryPool> pools;
  std::vector<CUgraphExec> execs;
  std::vector<CUcontext> contexts;
  CUstream stream = nullptr;
  CUstream second = nullptr;
  CUcontext primary = nullptr;
} live;

CUstream any_stream() {
  return pick(std::vector<CUstream>{live.stream, live.second, nullptr, CU_STREAM_LEGACY,
                                    CU_STREAM_PER_THREAD});
}

void keep_block(const char* what, CUresult result, const CUdeviceptr& block) {
  say(what, result);
  if (result != CUDA_SUCCESS) return;
  std::size_t bytes = 0;
  std::printf("range %d", cuMemGetAddressRange(nullptr, &bytes, block));
  std::printf(" %zu\n", bytes);
  live.blocks.push_back(block);
}

void allocate() {
  CUdeviceptr block = 0;
  if (below(20) == 0) return say("alloc-null", cuMemAlloc(nullptr, any_size()));
  keep_block("alloc", cuMemAlloc(&block, any_size()), block);
}

void allocate_pitch() {
  CUdeviceptr block = 0;
  std::size_t pitch = 0;
  const unsigned element = pick(std::vector<unsigned>{4, 8, 16, 16, 3, 0});
  const std::size_t width = pick(std::vector<std::size_t>{0, 1, 1000, 5000, SIZE_MAX});
  const std::size_t height = pick(std::vector<std::size_t>{0, 1, 1000, 2000});
  const CUresult result = cuMemAllocPitch(&block, &pitch, width, height, element);
  keep_block("pitch", result, block);
  if (result == CUDA_SUCCESS) std::printf("pitch %zu\n", pitch);
}

void allocate_managed() {
  CUdeviceptr block = 0;
  const unsigned flags = pick(std::vector<unsigned>{1, 1, 2, 4, 0});
  // Managed memory may be more than the card has, but counts in full.
  const std::size_t bytes = pick(std::vector<std::size_t>{0, 1, kMiB, 33 * kMiB, SIZE_MAX});
  keep_block("managed", cuMemAllocManaged(&block, bytes, flags), block);
}

void free_block() {
  if (below(6) == 0) return say("free-wrong", cuMemFree(wrong_address(live.blocks)));
  if (live.blocks.empty()) return;
  const CUdeviceptr block = pick(live.blocks);
  const CUresult result = below(8) == 0 ? cuMemFreeAsync(block, any_stream()) : cuMemFree(block);
  say("free", result);
  if (result != CUDA_SUCCESS) return;
  forget(&live.blocks, block);
  if (below(4) == 0) say("free-again", cuMemFree(block));
}

CUDA_ARRAY3D_DESCRIPTOR any_descriptor() {
  CUDA_ARRAY3D_DESCRIPTOR d = {};
  d.Width = pick(std::vector<std::size_t>{0, 1, 100, 1000, 1024});
  d.Height = pick(std::vector<std::size_t>{0, 1, 1000, 1024});
  d.Depth = pick(std::vector<std::size_t>{0, 0, 0, 4});
  d.Format =
      pick(std::vector<CUarray_format>{CU_AD_FORMAT_FLOAT, CU_AD_FORMAT_UNSIGNED_INT8,
                                       CU_AD_FORMAT_HALF, static_cast<CUarray_format>(0x7f)});
  d.NumChannels = pick(std::vector<unsigned>{1, 2, 4, 4, 3});
  d.Flags =
      pick(std::vector<unsigned>{0, 0, 0, CUDA_ARRAY3D_SPARSE, CUDA_ARRAY3D_DEFERRED_MAPPING});
  return d;
}

void make_array() {
  const CUDA_ARRAY3D_DESCRIPTOR deep = any_descriptor();
  CUarray array = nullptr;
  CUresult result = CUDA_SUCCESS;
  if (below(2) == 0) {
    result = cuArray3DCreate(below(20) == 0 ? nullptr : &array, &deep);
    say("array3d", result);
  } else {
    CUDA_ARRAY_DESCRIPTOR flat = {deep.Width, deep.Height, deep.Format, deep.NumChannels};
    result = cuArrayCreate(&array, &flat);
    say("array", result);
  }
  if (result == CUDA_SUCCESS && array != nullptr) live.arrays.push_back(array);
}

void destroy_array() {
  if (live.arrays.empty()) return;
  const CUarray array = pick(live.arrays);
  if (persist("array-destroy", [&] { return cuArrayDestroy(array); })) forget(&live.arrays, array);
}

void make_mipmap() {
  const CUDA_ARRAY3D_DESCRIPTOR deep = any_descriptor();
  CUmipmappedArray mipmap = nullptr;
  const CUresult result =
      cuMipmappedArrayCreate(&mipmap, &deep, static_cast<unsigned>(1 + below(5)));
  say("mipmap", result);
  if (result == CUDA_SUCCESS) live.mipmaps.push_back(mipmap);
}

void destroy_mipmap() {
  if (live.mipmaps.empty()) return;
  const CUmipmappedArray mipmap = pick(live.mipmaps);
  if (persist("mipmap-destroy", [&] { return cuMipmappedArrayDestroy(mipmap); })) {
    forget(&live.mipmaps, mipmap);
  }
}

void create_physical() {
  CUmemAllocationProp prop = on_device(pick(std::vector<int>{0, 1, 0, 1, 7, -1}));
  if (below(8) == 0) prop.location = {CU_MEM_LOCATION_TYPE_HOST, 0};
  if (below(10) == 0) prop.type = CU_MEM_ALLOCATION_TYPE_INVALID;
  CUmemGenericAllocationHandle handle = 0;
  const std::size_t bytes = below(5) == 0 ? any_size() : (1 + below(8)) * 2 * kMiB;
  const unsigned long long flags = below(15) == 0 ? 1 : 0;
  const CUresult result = cuMemCreate(below(20) == 0 ? nullptr : &handle, bytes, &prop, flags);
  say("create", result);
  if (result == CUDA_SUCCESS) live.physical.push_back({handle, bytes});
}

void release_physical() {
  if (below(8) == 0) return say("release-wrong", cuMemRelease(0x77));
  if (live.physical.empty()) return;
  const Physical physical = pick(live.physical);
  if (persist("release", [&] { return cuMemRelease(physical.handle); })) {
    forget(&live.physical, physical);
  }
}

void map_physical() {
  if (live.physical.empty()) return;
  const Physical physical = pick(live.physical);
  CUdeviceptr at = 0;
  say("reserve", cuMemAddressReserve(&at, physical.bytes, 0, 0, 0));
  if (at == 0) return;
  const std::size_t offset = below(10) == 0 ? 2 * kMiB : 0;
  const std::size_t bytes = below(10) == 0 ? physical.bytes / 2 : physical.bytes;
  const CUresult result = cuMemMap(at, bytes, offset, physical.handle, 0);
  say("map", result);
  if (result != CUDA_SUCCESS) return say("unreserve", cuMemAddressFree(at, physical.bytes));
  live.mapped.push_back({at, physical.bytes});
}

void unmap_physical() {
  if (live.mapped.empty()) return;
  const Mapped mapped = pick(live.mapped);
  if (below(4) == 0) return say("unmap-part", cuMemUnmap(mapped.at, mapped.bytes / 2));
  // So far that what lies beside it, which depends on who else reserves addresses, is of no
  // account.
  if (below(6) == 0) return say("unmap-more", cuMemUnmap(mapped.at, mapped.bytes + 1024 * kGiB));
  if (!persist("unmap", [&] { return cuMemUnmap(mapped.at, mapped.bytes); })) return;
  say("unmap-again", cuMemUnmap(mapped.at, mapped.bytes));
  say("unreserve", cuMemAddressFree(mapped.at, mapped.bytes));
  forget(&live.mapped, mapped);
}

void retain_physical() {
  CUmemGenericAllocationHandle handle = 0;
  void* const address = live.mapped.empty() || below(4) == 0
                            ? reinterpret_cast<void*>(0x1000)
                            : reinterpret_cast<void*>(pick(live.mapped).at);
  const CUresult result = cuMemRetainAllocationHandle(&handle, address);
  say("retain", result);
  if (result == CUDA_SUCCESS) persist("retain-release", [&] { return cuMemRelease(handle); });
}

void allocate_ordered() {
  CUdeviceptr block = 0;
  CUresult result = CUDA_SUCCESS;
  const std::size_t bytes = any_size();
  const CUstream stream = any_stream();
  if (live.pools.empty() || below(2) == 0) {
    result = cuMemAllocAsync(below(20) == 0 ? nullptr : &block, bytes, stream);
    say("async", result);
  } else {
    result = cuMemAllocFromPoolAsync(&block, bytes, pick(live.pools), stream);
    say("from-pool", result);
  }
  if (result == CUDA_SUCCESS && block != 0) live.ordered.push_back(block);
}

void free_ordered() {
  if (below(8) == 0) {
    return say("free-async-wrong", cuMemFreeAsync(wrong_address(live.ordered), live.stream));
  }
  if (live.ordered.empty()) return;
  const CUdeviceptr block = pick(live.ordered);
  const CUresult result = below(6) == 0 ? cuMemFree(block) : cuMemFreeAsync(block, any_stream());
  say("free-async", result);
  if (result == CUDA_SUCCESS) forget(&live.ordered, block);
}

void synchronize() {
  switch (below(4)) {
    case 0:
      return say("sync-context", cuCtxSynchronize());
    case 1: {
      CUmemoryPool pool = nullptr;
      cuDeviceGetDefaultMemPool(&pool, 0);
      return say("trim", cuMemPoolTrimTo(pool, 0));
    }
    case 2: {
      CUevent event = nullptr;
      say("event", cuEventCreate(&event, 0));
      say("record", cuEventRecord(event, live.stream));
      say("sync-event", cuEventSynchronize(event));
      return say("event-destroy", cuEventDestroy(event));
    }
    default:
      return say("sync", cuStreamSynchronize(any_stream()));
  }
}

void make_pool() {
  CUmemPoolProps props = pool_on_device(static_cast<int>(below(3)));
  if (below(6) == 0) props.maxSize = 64 * kMiB;
  if (below(10) == 0) props.allocType = CU_MEM_ALLOCATION_TYPE_INVALID;
  CUmemoryPool pool = nullptr;
  const CUresult result = cuMemPoolCreate(below(10) == 0 ? nullptr : &pool, &props);
  say("pool", result);
  // Memory of a card is used from that card's streams only.
  if (result != CUDA_SUCCESS) return;
  if (props.location.id != 0 || live.pools.size() > 4) {
    persist("pool-destroy", [&] { return cuMemPoolDestroy(pool); });
  } else {
    live.pools.push_back(pool);
  }
}

void destroy_pool() {
  if (live.pools.empty()) return;
  const CUmemoryPool pool = pick(live.pools);
  if (persist("pool-destroy", [&] { return cuMemPoolDestroy(pool); })) forget(&live.pools, pool);
}

void capture_graph() {
  CUgraph graph = nullptr;
  CUgraphExec exec = nullptr;
  CUdeviceptr block = 0;
  const auto mode = static_cast<CUstreamCaptureMode>(below(3));
  say("capture", cuStreamBeginCapture(live.stream, mode));
  const std::size_t bytes = pick(std::vector<std::size_t>{512, kMiB, 3 * kMiB, 33 * kMiB});
  say("capture-alloc", cuMemAllocAsync(&block, bytes, live.stream));
  std::size_t free = 0;
  std::size_t total = 0;
  if (below(3) == 0) say("capture-info", cuMemGetInfo(&free, &total));
  if (below(5) == 0) {
    CUdeviceptr unsafe = 0;
    const CUresult result = cuMemAlloc(&unsafe, 3 * kMiB);
    say("capture-unsafe", result);
    if (result == CUDA_SUCCESS) live.blocks.push_back(unsafe);
  }
  if (below(5) == 0) say("capture-sync", cuStreamSynchronize(live.stream));
  if (block != 0) say("capture-free", cuMemFreeAsync(block, live.stream));
  say("end-capture", cuStreamEndCapture(live.stream, &graph));
  if (graph == nullptr) return;
  const CUresult made = cuGraphInstantiate(&exec, graph, 0);
  say("instantiate", made);
  persist("graph-destroy", [&] { return cuGraphDestroy(graph); });
  if (made == CUDA_SUCCESS) live.execs.push_back(exec);
}

void launch_graph() {
  if (live.execs.empty()) return;
  const CUgraphExec exec = pick(live.execs);
  say("launch", cuGraphLaunch(exec, live.stream));
  if (below(3) != 0) return;
  say("sync", cuStreamSynchronize(live.stream));
  if (persist("exec-destroy", [&] { return cuGraphExecDestroy(exec); })) {
    forget(&live.execs, exec);
  }
  if (below(2) == 0) say("graph-trim", cuDeviceGraphMemTrim(static_cast<int>(below(3))));
}

void context_life() {
  if (live.contexts.size() < 3 && below(2) == 0) {
    CUcontext context = nullptr;
    const CUresult result =
        cuCtxCreate(below(10) == 0 ? nullptr : &context, nullptr, 0, static_cast<int>(below(3)));
    say("context", result);
    if (result != CUDA_SUCCESS) return;
    CUdeviceptr block = 0;
    say("alloc-there", cuMemAlloc(&block, 5 * kMiB));
    CUcontext popped = nullptr;
    say("pop", cuCtxPopCurrent(&popped));
    live.contexts.push_back(context);
  } else if (!live.contexts.empty()) {
    const CUcontext context = pick(live.contexts);
    if (persist("context-destroy", [&] { return cuCtxDestroy(context); })) {
      forget(&live.contexts, context);
    }
  }
}

void ask() {
  std::size_t free = 0;
  std::size_t total = 0;
  switch (below(6)) {
    case 0:
      return say("info-null", cuMemGetInfo(nullptr, &total));
    case 1:
      return say("info-null", cuMemGetInfo(&free, nullptr));
    case 2:
      return say("total", cuDeviceTotalMem(&total, static_cast<int>(below(4)) - 1));
    case 3:
      return say("total-null", cuDeviceTotalMem(nullptr, 0));
    case 4:
      return say("stack", cuCtxSetLimit(CU_LIMIT_STACK_SIZE, pick(std::vector<std::size_t>{
                                                                 512, 1024, 2048, 4096, 1024})));
    default:
      return say("info", cuMemGetInfo(&free, &total));
  }
}

void other_device() {
  CUcontext context = nullptr;
  CUdeviceptr block = 0;
  const CUresult result = cuDevicePrimaryCtxRetain(&context, 1);
  say("primary", result);
  if (result != CUDA_SUCCESS) return;
  say("push", cuCtxPushCurrent(context));
  say("alloc", cuMemAlloc(&block, any_size()));
  say("async", cuMemAllocAsync(&block, 3 * kMiB, nullptr));
  say("pop", cuCtxPopCurrent(&context));
  say(below(2) == 0 ? "reset" : "release",
      below(2) == 0 ? cuDevicePrimaryCtxReset(1) : cuDevicePrimaryCtxRelease(1));
  persist("reset", [] { return cuDevicePrimaryCtxReset(1); });
}

void without_context() {
  CUcontext context = nullptr;
  CUdeviceptr block = 0;
  cuCtxPopCurrent(&context);
  say("alone-alloc", cuMemAlloc(&block, kMiB));
  say("alone-free", cuMemFree(0x1000));
  say("alone-async", cuMemAllocAsync(&block, kMiB, nullptr));
  say("alone-sync", cuCtxSynchronize());
  cuCtxPushCurrent(context);
}

void load_module() {
  CUmodule module = nullptr;
  static const char text[] =
      ".version 7.0\n.target sm_70\n.address_size 64\n"
      ".global .align 4 .b8 table[4194304];\n"
      ".visible .entry nothing() { ret; }\n";
  const CUresult result = cuModuleLoadData(&module, below(3) == 0 ? "no module" : text);
  say("module", result);
  if (result != CUDA_SUCCESS) return;
  CUfunction function = nullptr;
  say("function", cuModuleGetFunction(&function, module, below(4) == 0 ? "none" : "nothing"));
  persist("unload", [&] { return cuModuleUnload(module); });
}

template <typename T, typename Call>
void give_all(const char* what, std::vector<T>* list, Call call) {
  for (const T& one : *list) CHECK(persist(what, [&] { return call(one); }));
  list->clear();
}

void give_everything() {
  give_all("block", &live.blocks, [](CUdeviceptr block) { return cuMemFree(block); });
  give_all("ordered", &live.ordered,
           [](CUdeviceptr block) { return cuMemFreeAsync(block, live.stream); });
  give_all("array", &live.arrays, [](CUarray array) { return cuArrayDestroy(array); });
  give_all("mipmap", &live.mipmaps,
           [](CUmipmappedArray mipmap) { return cuMipmappedArrayDestroy(mipmap); });
  // A mapping may have gone with its neighbour.
  for (const Mapped& mapped : live.mapped) {
    persist("unmap", [&] { return cuMemUnmap(mapped.at, mapped.bytes); });
  }
  give_all("release", &live.physical,
           [](const Physical& physical) { return cuMemRelease(physical.handle); });
  persist("sync", [] { return cuStreamSynchronize(live.stream); });
  give_all("pool", &live.pools, [](CUmemoryPool pool) { return cuMemPoolDestroy(pool); });
  give_all("exec", &live.execs, [](CUgraphExec exec) { return cuGraphExecDestroy(exec); });
  give_all("context", &live.contexts, [](CUcontext context) { return cuCtxDestroy(context); });
  CHECK(persist("trim", [] { return cuDeviceGraphMemTrim(0); }));
  CHECK(persist("stack", [] { return cuCtxSetLimit(CU_LIMIT_STACK_SIZE, 1024); }));
  CHECK(persist("sync", [] { return cuCtxSynchronize(); }));
  CUmemoryPool pool = nullptr;
  OK(cuDeviceGetDefaultMemPool(&pool, 0));
  CHECK(persist("trim", [&] { return cuMemPoolTrimTo(pool, 0); }));
}

// What is kept in reserve is got once.
void warm_up() {
  CUdeviceptr block = 0;
  CHECK(persist("warm", [&] { return cuMemAlloc(&block, kKiB); }));
  CHECK(persist("warm", [&] { return cuMemFree(block); }));
}

bool crowded() {
  return live.blocks.size() + live.ordered.size() + live.arrays.size() + live.mipmaps.size() +
             live.physical.size() + live.mapped.size() >
         kMostLive;
}

void one_step() {
  static const std::vector<std::function<void()>> takes = {
      allocate,        allocate,     allocate_pitch,   allocate_managed, make_array, make_mipmap,
      create_physical, map_physical, allocate_ordered, allocate_ordered, make_pool,  capture_graph};
  static const std::vector<std::function<void()>> gives = {
      free_block,     free_block,       free_block,     destroy_array,
      destroy_mipmap, release_physical, unmap_physical, retain_physical,
      free_ordered,   free_ordered,     free_ordered,   synchronize,
      destroy_pool,   launch_graph,     context_life,   ask,
      other_device,   without_context,  load_module};
  if (!crowded() && below(2) == 0) return takes[below(takes.size())]();
  gives[below(gives.size())]();
}

}  // namespace

int main(int count, char** arguments) {
  CHECK(count == 3);
  random_bits.seed(std::strtoull(arguments[1], nullptr, 10));
  OK(cuInit(0));
  CHECK(persist("primary", [] { return cuDevicePrimaryCtxRetain(&live.primary, 0); }));
  OK(cuCtxSetCurrent(live.primary));
  CHECK(persist("stream", [] { return cuStreamCreate(&live.stream, CU_STREAM_NON_BLOCKING); }));
  CHECK(persist("stream", [] { return cuStreamCreate(&live.second, CU_STREAM_DEFAULT); }));
  warm_up();
  const std::size_t before = left();
  const unsigned long long steps = std::strtoull(arguments[2], nullptr, 10);
  for (unsigned long long i = 0; i < steps; ++i) one_step();
  give_everything();
  const std::size_t after = left();
  std::printf("not back: %zd\n", static_cast<std::ptrdiff_t>(before - after));
}
