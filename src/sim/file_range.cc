#include "sim/file_range.h"

#include "sim/address_space.h"
#include "sim/identity.h"
#include "sim/registry.h"

namespace vram::sim {
namespace {

constexpr uint64_t kPage = 4096;

}  // namespace

CUresult map_file_range(int file, uint64_t offset, Allocation* allocation, FileRange* out) {
  AddressSpace* const space = AddressSpace::get();
  if (space == nullptr) return CUDA_ERROR_OUT_OF_MEMORY;
  // Bytes begin anywhere, mappings at a page.
  const uint64_t first = offset / kPage * kPage;
  FileRange range;
  range.bytes = round_up(offset + allocation->bytes - first, kPieceBytes);
  range.pages = space->reserve(range.bytes, kPieceBytes, 0);
  if (range.pages == 0) return CUDA_ERROR_OUT_OF_MEMORY;
  allocation->base = range.pages + (offset - first);
  if (!space->map(range.pages, range.bytes, file, first) || !register_allocation(*allocation)) {
    space->unreserve(range.pages, range.bytes);
    return CUDA_ERROR_OUT_OF_MEMORY;
  }
  *out = range;
  return CUDA_SUCCESS;
}

void unmap_file_range(const FileRange& range) {
  AddressSpace::get()->unmap(range.pages, range.bytes);
  AddressSpace::get()->unreserve(range.pages, range.bytes);
}

}  // namespace vram::sim
