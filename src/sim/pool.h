// Stream-ordered memory pools, and the memory of graphs.
//
// Model. A pool owns a range of addresses and takes card memory for it in whole pieces of 32 MiB.
// A freed block can be given out again at once on the stream it was freed on, elsewhere when that
// stream has reached the free (sim/stream.h, reached()). At a synchronisation the unused pieces
// above the release threshold go back to the card.
//
// Threads: every function here may be called from any thread. No function waits for a stream.
#pragma once

#include <cuda.h>

#include <cstddef>
#include <cstdint>

#include "sim/context.h"

namespace vram::sim {

class Pool;

// CUDA_ERROR_INVALID_VALUE when the handle is no pool. The pool stays valid while it has live
// blocks, also when the program destroys it.
[[nodiscard]] CUresult find_pool(CUmemoryPool handle, Pool** out);
[[nodiscard]] Pool& current_pool(int device);  // cuDeviceSetMemPool's, at first the default pool
[[nodiscard]] int device_of(const Pool& pool);

// A block for work on stream `stream_id` (id_of() of sim/stream.h). CUDA_ERROR_OUT_OF_MEMORY over
// the pool's maximum or the card's room, CUDA_ERROR_INVALID_VALUE for 0 bytes.
[[nodiscard]] CUresult pool_allocate(Pool& pool, size_t bytes, uint64_t stream_id,
                                     CUdeviceptr* out);

// Frees a block as of ticket `number` of the stream. CUDA_ERROR_INVALID_VALUE unless it is the base
// of a live block of a pool, own or imported.
[[nodiscard]] CUresult pool_free(CUdeviceptr base, uint64_t stream_id, uint64_t number);

// Whether work that runs on the card now can reach the range: all of a pool's memory, for a block
// that is freed further along its stream is still there.
[[nodiscard]] bool pool_has_memory(CUdeviceptr base, size_t bytes);

// Graph memory: an allocation node has its address from the time it is added; card memory, by whole
// 32 MiB of the device's graph pool, from its execution (commit) to its free node or cuMemFree
// (uncommit). What is uncommitted stays reserved for graphs until graph_memory_trim().
[[nodiscard]] CUresult graph_memory_reserve(int device, size_t bytes, CUdeviceptr* out);
[[nodiscard]] CUresult graph_memory_commit(CUdeviceptr base);  // no-op when it is committed
[[nodiscard]] CUresult graph_memory_uncommit(CUdeviceptr base);
[[nodiscard]] bool graph_memory_is_committed(CUdeviceptr base);
// The graph and its exec are gone: the address too, at once or when it is uncommitted.
void graph_memory_forget(CUdeviceptr base);
void graph_memory_trim(int device);

struct GraphMemory {
  uint64_t used = 0, used_high = 0, reserved = 0, reserved_high = 0;
};
[[nodiscard]] GraphMemory graph_memory_usage(int device);
void graph_memory_reset_high(int device, CUgraphMem_attribute which);

}  // namespace vram::sim
