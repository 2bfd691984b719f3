// cuMemAllocAsync and its kin: allocation in the order of a stream.
#include <cuda.h>

#include <utility>

#include "sim/capture.h"
#include "sim/graph_memory.h"
#include "sim/memory.h"
#include "sim/operation.h"
#include "sim/pool.h"
#include "sim/stream_entry.h"
#include "sim/try.h"

namespace vram::sim {
namespace {

// In a capture an allocation becomes a node: it has an address at once and memory when it runs.
CUresult allocate_captured(const std::shared_ptr<Stream>& stream, size_t bytes, int device,
                           CUdeviceptr* out) {
  AllocationCall call;
  call.params.poolProps.allocType = CU_MEM_ALLOCATION_TYPE_PINNED;
  call.params.poolProps.location = {CU_MEM_LOCATION_TYPE_DEVICE, device};
  call.params.bytesize = bytes;
  VRAM_SIM_TRY(reserve_graph_address(device, bytes, &call.params.dptr));
  const CUdeviceptr address = call.params.dptr;
  if (const CUresult result = enqueue(stream, std::move(call)); result != CUDA_SUCCESS) {
    forget_graph_address(address);
    return result;
  }
  *out = address;
  return CUDA_SUCCESS;
}

CUresult allocate_from(const std::shared_ptr<Stream>& stream, size_t bytes, Pool& pool,
                       CUdeviceptr* out) {
  if (capture_of(*stream)) return allocate_captured(stream, bytes, device_of(pool), out);
  VRAM_SIM_TRY(refuse_if_capturing(*stream));
  return pool_allocate(pool, bytes, id_of(*stream), out);
}

CUresult allocate(DefaultStream meaning, CUdeviceptr* out, size_t bytes, CUstream handle) {
  if (out == nullptr) return CUDA_ERROR_INVALID_VALUE;
  std::shared_ptr<Stream> stream;
  VRAM_SIM_TRY(require_stream(handle, meaning, &stream));
  return allocate_from(stream, bytes, current_pool(context_of(*stream).device), out);
}

CUresult allocate_in_pool(DefaultStream meaning, CUdeviceptr* out, size_t bytes,
                          CUmemoryPool pool_handle, CUstream handle) {
  if (out == nullptr) return CUDA_ERROR_INVALID_VALUE;
  std::shared_ptr<Stream> stream;
  VRAM_SIM_TRY(require_stream(handle, meaning, &stream));
  Pool* pool = nullptr;
  VRAM_SIM_TRY(find_pool(pool_handle, &pool));
  return allocate_from(stream, bytes, *pool, out);
}

// Memory that no stream orders is free when the stream has come here.
CUresult free_device_memory(const std::shared_ptr<Stream>& stream, CUdeviceptr address) {
  VRAM_SIM_TRY(synchronise_stream(stream));
  return device_free(address);
}

CUresult free_async(DefaultStream meaning, CUdeviceptr address, CUstream handle) {
  std::shared_ptr<Stream> stream;
  VRAM_SIM_TRY(require_stream(handle, meaning, &stream));
  Allocation allocation;
  const bool is_base = find_allocation(address, &allocation) && allocation.base == address;
  // A node's address is known before it has memory, its memory may outlive the node.
  const bool is_graphs =
      is_graph_address(address) || (is_base && allocation.kind == MemoryKind::kGraph);
  if (!is_graphs && !is_base) return CUDA_ERROR_INVALID_VALUE;
  if (capture_of(*stream)) {
    if (!is_graphs) return CUDA_ERROR_INVALID_VALUE;
    return enqueue(stream, FreeCall{address});
  }
  VRAM_SIM_TRY(refuse_if_capturing(*stream));
  if (is_graphs) return free_graph_memory(stream, address);
  if (allocation.kind == MemoryKind::kDevice) return free_device_memory(stream, address);
  return pool_free(address, id_of(*stream), last_ticket(stream).number);
}

// Where managed memory is makes no difference here: the calls check what they can, and are taken.
CUresult prefetch(DefaultStream meaning, CUdeviceptr address, size_t bytes, CUstream handle) {
  std::shared_ptr<Stream> stream;
  VRAM_SIM_TRY(require_stream(handle, meaning, &stream));
  if (host_view(address, bytes) == nullptr) return CUDA_ERROR_INVALID_VALUE;
  return enqueue(stream, EmptyCall{});
}

CUresult prefetch_v1(DefaultStream meaning, CUdeviceptr address, size_t bytes, CUdevice,
                     CUstream stream) {
  return prefetch(meaning, address, bytes, stream);
}

CUresult prefetch_v2(DefaultStream meaning, CUdeviceptr address, size_t bytes, CUmemLocation,
                     unsigned flags, CUstream stream) {
  if (flags != 0) return CUDA_ERROR_INVALID_VALUE;
  return prefetch(meaning, address, bytes, stream);
}

CUresult advise(CUdeviceptr address, size_t bytes) {
  Context* context = nullptr;
  VRAM_SIM_TRY(require_usable_context(&context));
  return host_view(address, bytes) == nullptr ? CUDA_ERROR_INVALID_VALUE : CUDA_SUCCESS;
}

CUresult advise_v1(CUdeviceptr address, size_t bytes, CUmem_advise, CUdevice) {
  return advise(address, bytes);
}

CUresult advise_v2(CUdeviceptr address, size_t bytes, CUmem_advise, CUmemLocation) {
  return advise(address, bytes);
}

}  // namespace
}  // namespace vram::sim

using namespace vram::sim;

extern "C" {

VRAM_SIM_BOTH(cuMemAllocAsync, _ptsz, allocate, (CUdeviceptr * out, size_t bytes, CUstream stream),
              (out, bytes, stream))
VRAM_SIM_BOTH(cuMemAllocFromPoolAsync, _ptsz, allocate_in_pool,
              (CUdeviceptr * out, size_t bytes, CUmemoryPool pool, CUstream stream),
              (out, bytes, pool, stream))
VRAM_SIM_BOTH(cuMemFreeAsync, _ptsz, free_async, (CUdeviceptr address, CUstream stream),
              (address, stream))
VRAM_SIM_BOTH(cuMemPrefetchAsync, _ptsz, prefetch_v1,
              (CUdeviceptr address, size_t bytes, CUdevice device, CUstream stream),
              (address, bytes, device, stream))
VRAM_SIM_BOTH(cuMemPrefetchAsync_v2, _ptsz, prefetch_v2,
              (CUdeviceptr address, size_t bytes, CUmemLocation location, unsigned flags,
               CUstream stream),
              (address, bytes, location, flags, stream))
VRAM_SIM_ONE(cuMemAdvise, advise_v1,
             (CUdeviceptr address, size_t bytes, CUmem_advise advice, CUdevice device),
             (address, bytes, advice, device))
VRAM_SIM_ONE(cuMemAdvise_v2, advise_v2,
             (CUdeviceptr address, size_t bytes, CUmem_advise advice, CUmemLocation location),
             (address, bytes, advice, location))

}  // extern "C"
