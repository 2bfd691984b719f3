#include "sim/host_memory.h"

#include <sys/mman.h>

#include "sim/external_memory.h"
#include "sim/ipc_memory.h"
#include "sim/registry.h"

namespace vram::sim {
namespace {

// Managed and pinned memory begins at a page; the driver's own alignment.
constexpr size_t kPage = 4096;

CUresult allocate_pages(Context& context, size_t bytes, unsigned flags, MemoryKind kind,
                        void** out) {
  if (bytes == 0) return CUDA_ERROR_INVALID_VALUE;
  if (bytes > SIZE_MAX - kPage) return CUDA_ERROR_OUT_OF_MEMORY;
  void* const pages = ::mmap(nullptr, round_up(bytes, kPage), PROT_READ | PROT_WRITE,
                             MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (pages == MAP_FAILED) return CUDA_ERROR_OUT_OF_MEMORY;
  Allocation allocation;
  allocation.base = reinterpret_cast<CUdeviceptr>(pages);
  allocation.bytes = bytes;
  allocation.kind = kind;
  allocation.device = context.device;
  allocation.context = &context;
  allocation.flags = flags;
  if (!register_allocation(allocation)) {
    ::munmap(pages, round_up(bytes, kPage));
    return CUDA_ERROR_UNKNOWN;
  }
  *out = pages;
  return CUDA_SUCCESS;
}

}  // namespace

CUresult allocate_managed(Context& context, size_t bytes, unsigned flags, CUdeviceptr* out) {
  void* pages = nullptr;
  const CUresult result = allocate_pages(context, bytes, flags, MemoryKind::kManaged, &pages);
  if (result == CUDA_SUCCESS) *out = reinterpret_cast<CUdeviceptr>(pages);
  return result;
}

CUresult allocate_pinned(Context& context, size_t bytes, unsigned flags, void** out) {
  return allocate_pages(context, bytes, flags, MemoryKind::kHost, out);
}

void free_host_kind(const Allocation& allocation) {
  (void)free_kind(allocation.base, allocation.kind);
}

CUresult free_kind(CUdeviceptr base, MemoryKind kind) {
  if (kind == MemoryKind::kImported) return close_import(base);
  if (kind == MemoryKind::kExternal) return free_external_buffer(base);
  Allocation allocation;
  if (!take_allocation(base, kind, &allocation)) return CUDA_ERROR_INVALID_VALUE;
  if (kind == MemoryKind::kManaged || kind == MemoryKind::kHost) {
    ::munmap(reinterpret_cast<void*>(base), round_up(allocation.bytes, kPage));
  }
  return CUDA_SUCCESS;
}

}  // namespace vram::sim
