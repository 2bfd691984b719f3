// What a stream or a graph can be told to do. The same description serves both: outside a capture
// it is bound to a stream and runs once, inside it becomes a node of a graph.
#pragma once

#include <cuda.h>

#include <array>
#include <cstddef>
#include <memory>
#include <variant>
#include <vector>

#include "sim/event.h"
#include "sim/stream.h"

namespace vram::sim {

struct Function;
struct Graph;

// A kernel with its arguments, packed at the offsets the kernel declares. A kernel of unknown
// signature has no packed arguments.
struct KernelCall {
  std::shared_ptr<Function> function;
  CUfunction asked_for = nullptr;  // as the program named it: a CUfunction or a CUkernel
  std::array<unsigned, 3> grid{1, 1, 1};
  std::array<unsigned, 3> block{1, 1, 1};
  unsigned shared_bytes = 0;
  std::vector<std::byte> arguments;
};

struct CopyCall {
  CUDA_MEMCPY3D shape{};
};

struct FillCall {
  CUDA_MEMSET_NODE_PARAMS shape{};
};

struct HostCall {
  CUhostFn function = nullptr;
  void* argument = nullptr;
};

struct EventRecordCall {
  std::shared_ptr<Event> event;
};

struct EventWaitCall {
  std::shared_ptr<Event> event;
};

struct MemoryOpsCall {
  std::vector<CUstreamBatchMemOpParams> operations;
};

// Memory of a graph: the address is fixed when the node is made.
struct AllocationCall {
  CUDA_MEM_ALLOC_NODE_PARAMS params{};
};

struct FreeCall {
  CUdeviceptr address = 0;
};

struct ChildGraphCall {
  std::shared_ptr<Graph> graph;
  bool moved = false;  // the graph that the program made, not a clone of it
};

struct EmptyCall {};

using Operation =
    std::variant<EmptyCall, KernelCall, CopyCall, FillCall, HostCall, EventRecordCall,
                 EventWaitCall, MemoryOpsCall, AllocationCall, FreeCall, ChildGraphCall>;

// Does the operation now, on the calling executor thread.
[[nodiscard]] CUresult run(const Operation& operation, Context& context);

// Puts the operation at the end of the stream, or into the graph the stream is captured into.
[[nodiscard]] CUresult enqueue(const std::shared_ptr<Stream>& stream, Operation operation);

}  // namespace vram::sim
