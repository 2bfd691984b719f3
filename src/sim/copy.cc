#include "sim/copy.h"

#include <utility>
#include <vector>

#include "sim/capture.h"
#include "sim/memory.h"
#include "sim/operation.h"
#include "sim/stream_entry.h"
#include "sim/transfer.h"
#include "sim/try.h"

namespace vram::sim {
namespace {

// The driver takes a pageable source of up to this size along in the command itself and returns; a
// larger one it copies before it returns.
constexpr size_t kStagedBytes = 65536;

CUdeviceptr number(const void* pointer) { return reinterpret_cast<CUdeviceptr>(pointer); }

bool is_host(CUmemorytype type, CUdeviceptr address) {
  return type == CU_MEMORYTYPE_HOST ||
         (type == CU_MEMORYTYPE_UNIFIED && !is_device_address(address));
}

CUdeviceptr source_address(const CUDA_MEMCPY3D& copy) {
  return copy.srcMemoryType == CU_MEMORYTYPE_HOST ? number(copy.srcHost) : copy.srcDevice;
}

CUdeviceptr target_address(const CUDA_MEMCPY3D& copy) {
  return copy.dstMemoryType == CU_MEMORYTYPE_HOST ? number(copy.dstHost) : copy.dstDevice;
}

bool reads_pageable(const CUDA_MEMCPY3D& copy) {
  return is_host(copy.srcMemoryType, source_address(copy)) &&
         is_pageable(reinterpret_cast<const void*>(source_address(copy)));
}

bool writes_pageable(const CUDA_MEMCPY3D& copy) {
  return is_host(copy.dstMemoryType, target_address(copy)) &&
         is_pageable(reinterpret_cast<const void*>(target_address(copy)));
}

bool is_small_row(const CUDA_MEMCPY3D& copy) {
  return copy.Height == 1 && copy.Depth == 1 && copy.WidthInBytes <= kStagedBytes;
}

// Puts the copy on the stream with the bytes of its source, which the program may change at once.
void submit_staged(const std::shared_ptr<Stream>& stream, CUDA_MEMCPY3D copy) {
  const auto* source = reinterpret_cast<const std::byte*>(source_address(copy)) + copy.srcXInBytes;
  std::vector<std::byte> bytes(source, source + copy.WidthInBytes);
  submit(stream, [copy, bytes = std::move(bytes)]() mutable {
    copy.srcMemoryType = CU_MEMORYTYPE_HOST;
    copy.srcHost = bytes.data();
    copy.srcXInBytes = 0;
    return run_copy(copy);
  });
}

CUresult submit_and_wait(const std::shared_ptr<Stream>& stream, const CUDA_MEMCPY3D& copy) {
  const Ticket ticket = submit(stream, [copy] { return run_copy(copy); });
  return wait(ticket, context_of(*stream));
}

// As the card does it: a copy to pageable memory, or of much of it, is over when the call returns;
// a small one from pageable memory has left it; any other is under way.
CUresult put_async(const std::shared_ptr<Stream>& stream, const CUDA_MEMCPY3D& copy) {
  // A captured copy may name memory that comes into being with its graph.
  if (capture_of(*stream)) return enqueue(stream, CopyCall{copy});
  VRAM_SIM_TRY(check_copy(copy));
  VRAM_SIM_TRY(refuse_if_capturing(*stream));
  const bool from_pageable = reads_pageable(copy);
  if (writes_pageable(copy)) return submit_and_wait(stream, copy);
  if (from_pageable && is_small_row(copy)) {
    submit_staged(stream, copy);
    return CUDA_SUCCESS;
  }
  if (from_pageable) return submit_and_wait(stream, copy);
  return enqueue(stream, CopyCall{copy});
}

// The calls without a stream wait, but not for a copy within the card's memory.
CUresult put_sync(const std::shared_ptr<Stream>& stream, const CUDA_MEMCPY3D& copy) {
  VRAM_SIM_TRY(refuse_if_capturing(*stream));
  VRAM_SIM_TRY(check_capture_allows_unsafe_call());
  VRAM_SIM_TRY(check_copy(copy));
  const bool to_host = is_host(copy.dstMemoryType, target_address(copy));
  const bool from_host = is_host(copy.srcMemoryType, source_address(copy));
  if (!to_host && !from_host) return enqueue(stream, CopyCall{copy});
  if (!to_host && reads_pageable(copy) && is_small_row(copy)) {
    submit_staged(stream, copy);
    return CUDA_SUCCESS;
  }
  return submit_and_wait(stream, copy);
}

}  // namespace

CUresult copy_async(DefaultStream meaning, const CUDA_MEMCPY3D& copy, CUstream handle) {
  std::shared_ptr<Stream> stream;
  VRAM_SIM_TRY(require_stream(handle, meaning, &stream));
  return put_async(stream, copy);
}

CUresult copy_sync(DefaultStream meaning, const CUDA_MEMCPY3D& copy) {
  std::shared_ptr<Stream> stream;
  VRAM_SIM_TRY(require_stream(nullptr, meaning, &stream));
  return put_sync(stream, copy);
}

}  // namespace vram::sim
