// ways WAY LIMIT_BYTES: takes all there is by one way, in ever smaller steps, and gives it back.
// Every refusal is out of memory, comes only when there is no room, and comes in time; what was
// given back is all there again.
#include <cstring>
#include <functional>
#include <map>
#include <string>
#include <vector>

#include "card.h"

namespace {

struct Way {
  std::size_t unit;   // the smallest step
  std::size_t slack;  // kept in reserve for this way
  std::function<CUresult(std::size_t)> take;
  std::function<void()> give;  // all that was taken
};

CUstream stream = nullptr;
int device = 0;  // where virtual memory and pools are made

std::vector<CUdeviceptr> blocks;
CUresult keep(CUresult result, const CUdeviceptr& block) {
  if (result == CUDA_SUCCESS) blocks.push_back(block);
  return result;
}
void free_blocks() {
  for (const CUdeviceptr block : blocks) OK(cuMemFree(block));
  blocks.clear();
}
void free_ordered() {
  for (const CUdeviceptr block : blocks) OK(cuMemFreeAsync(block, stream));
  blocks.clear();
  OK(cuStreamSynchronize(stream));
}
void free_and_wait_for_event() {
  CUevent event = nullptr;
  for (const CUdeviceptr block : blocks) OK(cuMemFreeAsync(block, stream));
  blocks.clear();
  OK(cuEventCreate(&event, CU_EVENT_DEFAULT));
  OK(cuEventRecord(event, stream));
  OK(cuEventSynchronize(event));
  OK(cuEventDestroy(event));
}

std::vector<CUarray> arrays;
void destroy_arrays() {
  for (const CUarray array : arrays) OK(cuArrayDestroy(array));
  arrays.clear();
}

std::vector<CUmipmappedArray> mipmaps;
void destroy_mipmaps() {
  for (const CUmipmappedArray mipmap : mipmaps) OK(cuMipmappedArrayDestroy(mipmap));
  mipmaps.clear();
}

std::vector<CUmemGenericAllocationHandle> handles;
CUresult create(std::size_t bytes) {
  const CUmemAllocationProp prop = on_device(device);
  CUmemGenericAllocationHandle handle = 0;
  const CUresult result = cuMemCreate(&handle, bytes, &prop, 0);
  if (result == CUDA_SUCCESS) handles.push_back(handle);
  return result;
}
void release() {
  for (const CUmemGenericAllocationHandle handle : handles) OK(cuMemRelease(handle));
  handles.clear();
}

struct Mapped {
  CUdeviceptr at;
  std::size_t bytes;
};
std::vector<Mapped> mapped;
// As programs do: the handle is released as soon as it is mapped, and the mapping keeps the memory.
CUresult create_and_map(std::size_t bytes) {
  const CUresult result = create(bytes);
  if (result != CUDA_SUCCESS) return result;
  CUdeviceptr at = 0;
  OK(cuMemAddressReserve(&at, bytes, 0, 0, 0));
  OK(cuMemMap(at, bytes, 0, handles.back(), 0));
  OK(cuMemRelease(handles.back()));
  handles.pop_back();
  mapped.push_back({at, bytes});
  return result;
}
void unmap() {
  for (const Mapped& mapping : mapped) {
    OK(cuMemUnmap(mapping.at, mapping.bytes));
    OK(cuMemAddressFree(mapping.at, mapping.bytes));
  }
  mapped.clear();
}

CUmemoryPool pool = nullptr;
CUmemoryPool own_pool() {
  const CUmemPoolProps props = pool_on_device(device);
  if (pool == nullptr) OK(cuMemPoolCreate(&pool, &props));
  return pool;
}
void destroy_pool() {
  free_ordered();
  OK(cuMemPoolDestroy(pool));
  pool = nullptr;
}

std::vector<CUgraphExec> execs;
// A graph that allocates and never frees holds its memory from its first launch.
CUresult launch(CUgraph graph) {
  CUgraphExec exec = nullptr;
  OK(cuGraphInstantiate(&exec, graph, 0));
  OK(cuGraphDestroy(graph));
  const CUresult result = cuGraphLaunch(exec, stream);
  if (result == CUDA_SUCCESS) {
    execs.push_back(exec);
  } else {
    OK(cuGraphExecDestroy(exec));
  }
  return result;
}
CUgraph with_node(std::size_t bytes) {
  CUgraph graph = nullptr;
  CUgraphNode node = nullptr;
  CUDA_MEM_ALLOC_NODE_PARAMS params = {};
  params.poolProps = pool_on_device(device);
  params.bytesize = bytes;
  OK(cuGraphCreate(&graph, 0));
  OK(cuGraphAddMemAllocNode(&node, graph, nullptr, 0, &params));
  blocks.push_back(params.dptr);
  return graph;
}
CUresult launch_node(std::size_t bytes) {
  const CUresult result = launch(with_node(bytes));
  if (result != CUDA_SUCCESS) blocks.pop_back();
  return result;
}
CUresult launch_among_many(std::size_t bytes) {
  CUgraph const graph = with_node(bytes);
  for (int i = 0; i < 300; ++i) {
    CUgraphNode node = nullptr;
    OK(cuGraphAddEmptyNode(&node, graph, nullptr, 0));
  }
  const CUresult result = launch(graph);
  if (result != CUDA_SUCCESS) blocks.pop_back();
  return result;
}
CUresult launch_child(std::size_t bytes) {
  CUgraph parent = nullptr;
  CUgraph const child = with_node(bytes);
  CUgraphNode node = nullptr;
  // A child with memory nodes cannot be a clone.
  CUgraphNodeParams params = {};
  params.type = CU_GRAPH_NODE_TYPE_GRAPH;
  params.graph = {child, CU_GRAPH_CHILD_GRAPH_OWNERSHIP_MOVE};
  OK(cuGraphCreate(&parent, 0));
  OK(cuGraphAddNode(&node, parent, nullptr, nullptr, 0, &params));
  const CUresult result = launch(parent);
  if (result != CUDA_SUCCESS) blocks.pop_back();
  return result;
}
// The memory is there before the first launch.
CUresult upload_node(std::size_t bytes) {
  CUgraph const graph = with_node(bytes);
  CUgraphExec exec = nullptr;
  CUDA_GRAPH_INSTANTIATE_PARAMS params = {};
  OK(cuGraphInstantiateWithParams(&exec, graph, &params));
  OK(cuGraphDestroy(graph));
  const CUresult result = cuGraphUpload(exec, stream);
  if (result == CUDA_SUCCESS) {
    OK(cuGraphLaunch(exec, stream));
    execs.push_back(exec);
  } else {
    OK(cuGraphExecDestroy(exec));
    blocks.pop_back();
  }
  return result;
}
CUresult launch_captured(std::size_t bytes) {
  CUgraph graph = nullptr;
  CUdeviceptr block = 0;
  OK(cuStreamBeginCapture(stream, CU_STREAM_CAPTURE_MODE_GLOBAL));
  OK(cuMemAllocAsync(&block, bytes, stream));
  OK(cuStreamEndCapture(stream, &graph));
  const CUresult result = launch(graph);
  return keep(result, block);
}
void destroy_execs() {
  for (const CUdeviceptr block : blocks) OK(cuMemFree(block));
  blocks.clear();
  for (const CUgraphExec exec : execs) OK(cuGraphExecDestroy(exec));
  execs.clear();
  OK(cuStreamSynchronize(stream));
  OK(cuDeviceGraphMemTrim(device));
}

const std::map<std::string, Way> ways = {
    {"alloc",
     {2 * kMiB, 0,
      [](std::size_t bytes) {
        CUdeviceptr block = 0;
        return keep(cuMemAlloc(&block, bytes), block);
      },
      free_blocks}},
    {"alloc_freed_in_order",
     {2 * kMiB, 0,
      [](std::size_t bytes) {
        CUdeviceptr block = 0;
        return keep(cuMemAlloc(&block, bytes), block);
      },
      free_ordered}},
    {"small",
     {kMiB, 2 * kMiB,
      [](std::size_t bytes) {
        CUdeviceptr block = 0;
        // Two of these share a slab of 2 MiB.
        return bytes > kMiB ? CUDA_ERROR_OUT_OF_MEMORY : keep(cuMemAlloc(&block, bytes), block);
      },
      free_blocks}},
    {"pitch",
     {2 * kMiB, 0,
      [](std::size_t bytes) {
        CUdeviceptr block = 0;
        std::size_t pitch = 0;
        return keep(cuMemAllocPitch(&block, &pitch, 2000, bytes / 2048, 4), block);
      },
      free_blocks}},
    {"managed",
     {2 * kMiB, 0,
      [](std::size_t bytes) {
        CUdeviceptr block = 0;
        return keep(cuMemAllocManaged(&block, bytes, CU_MEM_ATTACH_GLOBAL), block);
      },
      free_blocks}},
    {"array",
     {2 * kMiB, 0,
      [](std::size_t bytes) {
        const CUDA_ARRAY_DESCRIPTOR d = {2048, bytes / 8192, CU_AD_FORMAT_FLOAT, 1};
        CUarray array = nullptr;
        const CUresult result = cuArrayCreate(&array, &d);
        if (result == CUDA_SUCCESS) arrays.push_back(array);
        return result;
      },
      destroy_arrays}},
    {"array3d",
     {8 * kMiB, 8 * kMiB,
      [](std::size_t bytes) {
        CUDA_ARRAY3D_DESCRIPTOR d = {};
        d.Width = 512;
        d.Height = 512;
        d.Depth = bytes / (512 * 512 * 8);
        d.Format = CU_AD_FORMAT_HALF;
        d.NumChannels = 4;
        CUarray array = nullptr;
        const CUresult result = cuArray3DCreate(&array, &d);
        if (result == CUDA_SUCCESS) arrays.push_back(array);
        return result;
      },
      destroy_arrays}},
    {"mipmap",
     {32 * kMiB, 32 * kMiB,
      [](std::size_t bytes) {
        CUDA_ARRAY3D_DESCRIPTOR d = {};
        d.Width = 1024;
        d.Height = bytes / 16384;
        d.Format = CU_AD_FORMAT_FLOAT;
        d.NumChannels = 4;
        CUmipmappedArray mipmap = nullptr;
        const CUresult result = cuMipmappedArrayCreate(&mipmap, &d, 3);
        if (result == CUDA_SUCCESS) mipmaps.push_back(mipmap);
        return result;
      },
      destroy_mipmaps}},
    {"create", {2 * kMiB, 0, create, release}},
    {"create_map_release", {2 * kMiB, 0, create_and_map, unmap}},
    {"async",
     {32 * kMiB, 32 * kMiB,
      [](std::size_t bytes) {
        CUdeviceptr block = 0;
        return keep(cuMemAllocAsync(&block, bytes, stream), block);
      },
      free_ordered}},
    {"async_freed_at_once",
     {32 * kMiB, 32 * kMiB,
      [](std::size_t bytes) {
        CUdeviceptr block = 0;
        return keep(cuMemAllocAsync(&block, bytes, nullptr), block);
      },
      [] {
        free_blocks();
        OK(cuCtxSynchronize());
      }}},
    {"pool",
     {32 * kMiB, 32 * kMiB,
      [](std::size_t bytes) {
        CUdeviceptr block = 0;
        return keep(cuMemAllocFromPoolAsync(&block, bytes, own_pool(), stream), block);
      },
      destroy_pool}},
    {"current_pool",
     {32 * kMiB, 32 * kMiB,
      [](std::size_t bytes) {
        CUdeviceptr block = 0;
        OK(cuDeviceSetMemPool(device, own_pool()));
        return keep(cuMemAllocAsync(&block, bytes, stream), block);
      },
      destroy_pool}},
    {"set_pool",
     {32 * kMiB, 32 * kMiB,
      [](std::size_t bytes) {
        CUdeviceptr block = 0;
        CUmemLocation location = {CU_MEM_LOCATION_TYPE_DEVICE, device};
        OK(cuMemSetMemPool(&location, CU_MEM_ALLOCATION_TYPE_PINNED, own_pool()));
        return keep(cuMemAllocAsync(&block, bytes, stream), block);
      },
      destroy_pool}},
    {"waited_for_by_event",
     {32 * kMiB, 32 * kMiB,
      [](std::size_t bytes) {
        CUdeviceptr block = 0;
        return keep(cuMemAllocAsync(&block, bytes, stream), block);
      },
      free_and_wait_for_event}},
    {"graph_node", {32 * kMiB, 0, launch_node, destroy_execs}},
    {"graph_uploaded", {32 * kMiB, 0, upload_node, destroy_execs}},
    {"child_graph", {32 * kMiB, 0, launch_child, destroy_execs}},
    {"graph_of_many_nodes", {32 * kMiB, 0, launch_among_many, destroy_execs}},
    {"captured", {32 * kMiB, 0, launch_captured, destroy_execs}},
};

void take_all(const Way& way) {
  for (std::size_t step = 512 * kMiB; step >= way.unit; step /= 2) {
    CUresult result = CUDA_SUCCESS;
    while ((result = way.take(step)) == CUDA_SUCCESS) {
    }
    CHECK_IS(result, CUDA_ERROR_OUT_OF_MEMORY);
  }
}

}  // namespace

int main(int count, char** arguments) {
  CHECK(count >= 3 && ways.count(arguments[1]) == 1);
  const Way& way = ways.at(arguments[1]);
  const std::size_t limit = std::strtoull(arguments[2], nullptr, 10);
  start();
  OK(cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
  // What a way keeps in reserve it gets once.
  OK(way.take(way.unit));
  way.give();
  const std::size_t before = left();
  const std::size_t held_before = held();
  for (int round = 0; round < 2; ++round) {
    take_all(way);
    std::printf("%s: %zu MiB left, %zu MiB held\n", arguments[1], left() / kMiB, held() / kMiB);
    CHECK(left() < way.unit + way.slack);
    CHECK(held() <= limit);
    way.give();
    CHECK_IS(left(), before);
    CHECK_IS(held(), held_before);
  }
}
