// Memory of the simulated cards, as the other parts of the simulator use it.
//
// Model. A device address lies in a range of the process that no access is allowed to, so that a
// program which dereferences it crashes as on a real system. The bytes lie elsewhere in the
// process, where host_view() finds them. Managed and pinned memory lie at their own address. Pages
// come into being when they are written and are given back when the memory is freed.
//
// Threads: every function here may be called from any thread.
#pragma once

#include <cuda.h>

#include <cstddef>
#include <cstdint>

#include "sim/context.h"

namespace vram::sim {

// The bytes behind [address, address + bytes), if all of them belong to one allocation or to
// adjacent mappings that can be accessed, else null. Covers cuMemAlloc and its kin, pools, graph
// memory, mapped virtual memory, imports, managed, pinned and registered host memory. The view is
// good until the memory is freed or unmapped. `bytes` 0 counts as 1.
[[nodiscard]] void* host_view(CUdeviceptr address, size_t bytes);

// True for any address that only the card can use, allocated or not: a copy that names one where
// host memory is meant goes to the card's memory, and fails where host_view() is null.
[[nodiscard]] bool is_device_address(CUdeviceptr address);

// What an allocation is. Graph memory and pools have their own rules of freeing.
enum class MemoryKind {
  kDevice,      // cuMemAlloc, pitch, arrays' backing, module globals
  kManaged,     // cuMemAllocManaged
  kHost,        // cuMemHostAlloc, cuMemAllocHost
  kRegistered,  // cuMemHostRegister
  kVirtual,     // mapped by cuMemMap
  kPool,        // stream-ordered
  kGraph,       // allocation node of a graph
  kImported,    // cuIpcOpenMemHandle
  kExternal,    // a buffer on memory of another interface
};

struct Allocation {
  CUdeviceptr base = 0;
  size_t bytes = 0;  // as requested
  MemoryKind kind = MemoryKind::kDevice;
  int device = 0;
  Context* context = nullptr;  // null for what belongs to no context (virtual memory, pools)
  uint64_t buffer_id = 0;      // unique in the process, never reused
  unsigned flags = 0;          // of cuMemHostAlloc, cuMemHostRegister or cuMemAllocManaged
};

// The allocation that `address` lies in; false when there is none.
[[nodiscard]] bool find_allocation(CUdeviceptr address, Allocation* out);

// As cuMemAlloc: charged by slabs and 2 MiB pieces, freed with the context at the latest.
// CUDA_ERROR_OUT_OF_MEMORY; CUDA_ERROR_INVALID_VALUE for 0 bytes. Not visible to the program as an
// own call: no fault injection, no capture check.
// Small requests share slabs with others of the same kind: 0 for addresses, else an array's element
// size in bytes.
[[nodiscard]] CUresult device_allocate(Context& context, size_t bytes, CUdeviceptr* out,
                                       size_t kind = 0);
// CUDA_ERROR_INVALID_VALUE unless it is the base of a device_allocate()d range.
[[nodiscard]] CUresult device_free(CUdeviceptr base);

// Accounts for card memory that has no bytes. Never negative: uncharge what was charged.
// CUDA_ERROR_OUT_OF_MEMORY when the card, shared by all processes, has no room.
[[nodiscard]] CUresult charge(int device, size_t bytes);
void uncharge(int device, size_t bytes);

}  // namespace vram::sim
