// What the test programs share. A program says what went wrong on standard error and ends with 1.
#pragma once

#include <cuda.h>

#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <cstdlib>

inline constexpr std::size_t kKiB = 1024;
inline constexpr std::size_t kMiB = 1024 * kKiB;
inline constexpr std::size_t kGiB = 1024 * kMiB;

#define CHECK(condition)                                                           \
  do {                                                                             \
    if (!(condition)) {                                                            \
      std::fprintf(stderr, "%s:%d: not so: %s\n", __FILE__, __LINE__, #condition); \
      std::exit(1);                                                                \
    }                                                                              \
  } while (0)

#define CHECK_IS(call, expected)                                                                  \
  do {                                                                                            \
    const long long got_ = static_cast<long long>(call);                                          \
    const long long want_ = static_cast<long long>(expected);                                     \
    if (got_ != want_) {                                                                          \
      std::fprintf(stderr, "%s:%d: %s is %lld, not %lld (%s)\n", __FILE__, __LINE__, #call, got_, \
                   want_, #expected);                                                             \
      std::exit(1);                                                                               \
    }                                                                                             \
  } while (0)

#define OK(call) CHECK_IS(call, CUDA_SUCCESS)

// A current primary context.
inline CUcontext start(CUdevice ordinal = 0) {
  CUcontext context = nullptr;
  OK(cuInit(0));
  OK(cuDevicePrimaryCtxRetain(&context, ordinal));
  OK(cuCtxSetCurrent(context));
  return context;
}

// What the program is told is left.
inline std::size_t left() {
  std::size_t free = 0;
  std::size_t total = 0;
  OK(cuMemGetInfo(&free, &total));
  return free;
}

inline CUmemAllocationProp on_device(int ordinal) {
  CUmemAllocationProp prop = {};
  prop.type = CU_MEM_ALLOCATION_TYPE_PINNED;
  prop.location = {CU_MEM_LOCATION_TYPE_DEVICE, ordinal};
  return prop;
}

inline CUmemPoolProps pool_on_device(int ordinal) {
  CUmemPoolProps props = {};
  props.allocType = CU_MEM_ALLOCATION_TYPE_PINNED;
  props.location = {CU_MEM_LOCATION_TYPE_DEVICE, ordinal};
  return props;
}

// A graph that takes memory of the first card and gives it back.
inline CUgraph graph_that_takes(std::size_t bytes) {
  CUgraph graph = nullptr;
  CUgraphNode take = nullptr;
  CUgraphNode give = nullptr;
  CUDA_MEM_ALLOC_NODE_PARAMS params = {};
  params.poolProps = pool_on_device(0);
  params.bytesize = bytes;
  OK(cuGraphCreate(&graph, 0));
  OK(cuGraphAddMemAllocNode(&take, graph, nullptr, 0, &params));
  OK(cuGraphAddMemFreeNode(&give, graph, &take, 1, params.dptr));
  return graph;
}
