#include "sim/transfer.h"

#include <sys/mman.h>

#include <algorithm>
#include <cstdint>
#include <cstring>

#include "sim/array.h"
#include "sim/card_time.h"
#include "sim/card_view.h"
#include "sim/memory.h"

namespace vram::sim {
namespace {

// One side of a copy as rows of bytes: row y of slice z starts at
// address + x + (y + z * rows_per_slice) * pitch.
struct Side {
  CUmemorytype type;
  CUdeviceptr address;  // a host pointer as a number where `type` is HOST, 0 where there is none
  size_t x, y, z;
  size_t pitch, rows_per_slice;
};

// Smaller ranges of zeros are written: a program that clears them will use them.
constexpr size_t kLeastCleared = 16 << 20;

// host_view() for what the program asks now, card_view() for what runs.
using View = void* (*)(CUdeviceptr address, size_t bytes);

struct Extent {
  size_t width, height, depth;
};

Extent extent_of(const CUDA_MEMCPY3D& copy) { return {copy.WidthInBytes, copy.Height, copy.Depth}; }

// Pitch and height may be left out where there is nothing to skip.
size_t or_tight(size_t given, size_t tight) { return given != 0 ? given : tight; }

// Rows of an array, as a side of the card's memory; nowhere when the copy does not lie within it.
Side side_of_array(CUarray array, size_t x, size_t y, size_t z, const Extent& extent) {
  ArrayView view;
  const bool inside = view_array(array, &view) == CUDA_SUCCESS && view.base != 0 &&
                      x + extent.width <= view.width_bytes && y + extent.height <= view.height &&
                      z + extent.depth <= view.depth;
  const CUdeviceptr base = inside ? view.base : 0;
  return {CU_MEMORYTYPE_DEVICE, base, x, y, z, view.pitch, view.rows_per_slice};
}

Side source_of(const CUDA_MEMCPY3D& copy) {
  if (copy.srcMemoryType == CU_MEMORYTYPE_ARRAY) {
    return side_of_array(copy.srcArray, copy.srcXInBytes, copy.srcY, copy.srcZ, extent_of(copy));
  }
  const bool host = copy.srcMemoryType == CU_MEMORYTYPE_HOST;
  return {copy.srcMemoryType,
          host ? reinterpret_cast<CUdeviceptr>(copy.srcHost) : copy.srcDevice,
          copy.srcXInBytes,
          copy.srcY,
          copy.srcZ,
          or_tight(copy.srcPitch, copy.srcXInBytes + copy.WidthInBytes),
          or_tight(copy.srcHeight, copy.srcY + copy.Height)};
}

Side target_of(const CUDA_MEMCPY3D& copy) {
  if (copy.dstMemoryType == CU_MEMORYTYPE_ARRAY) {
    return side_of_array(copy.dstArray, copy.dstXInBytes, copy.dstY, copy.dstZ, extent_of(copy));
  }
  const bool host = copy.dstMemoryType == CU_MEMORYTYPE_HOST;
  return {copy.dstMemoryType,
          host ? reinterpret_cast<CUdeviceptr>(copy.dstHost) : copy.dstDevice,
          copy.dstXInBytes,
          copy.dstY,
          copy.dstZ,
          or_tight(copy.dstPitch, copy.dstXInBytes + copy.WidthInBytes),
          or_tight(copy.dstHeight, copy.dstY + copy.Height)};
}

bool is_known_type(CUmemorytype type) {
  return type == CU_MEMORYTYPE_HOST || type == CU_MEMORYTYPE_DEVICE ||
         type == CU_MEMORYTYPE_UNIFIED || type == CU_MEMORYTYPE_ARRAY;
}

size_t offset_of(const Side& side, size_t row, size_t slice) {
  return side.x + (side.y + row + (side.z + slice) * side.rows_per_slice) * side.pitch;
}

// The bytes of a side from its first to its last, in the process; null where the card's memory
// does not reach. Pageable host memory is taken as it is.
std::byte* view_of(const Side& side, const Extent& extent, View view) {
  const size_t first = offset_of(side, 0, 0);
  const size_t last = offset_of(side, extent.height - 1, extent.depth - 1) + extent.width;
  if (side.address == 0) return nullptr;
  const CUdeviceptr address = side.address + first;
  const bool on_card = side.type == CU_MEMORYTYPE_DEVICE || is_device_address(address);
  if (!on_card) return reinterpret_cast<std::byte*>(address);
  return static_cast<std::byte*>(view(address, last - first));
}

const char* way_of(const Side& source, const Side& target) {
  if (!is_device_address(source.address)) return "card.to_card";
  return is_device_address(target.address) ? "card.copy" : "card.to_host";
}

bool is_wide_enough(const Side& side, const Extent& extent) {
  const bool one_row = extent.height == 1 && extent.depth == 1;
  return one_row || side.pitch >= side.x + extent.width;
}

bool is_empty(const Extent& extent) {
  return extent.width == 0 || extent.height == 0 || extent.depth == 0;
}

// Takes the pages of a range of zeros away, for a page that is not there reads as zeros: the card's
// memory may be larger than the host's. What it cannot take away at the ends it writes.
void clear(std::byte* begin, size_t bytes) {
  constexpr uintptr_t kPage = 4096;
  const auto address = reinterpret_cast<uintptr_t>(begin);
  const uintptr_t first = (address + kPage - 1) / kPage * kPage;
  const uintptr_t last = (address + bytes) / kPage * kPage;
  if (first >= last || ::madvise(reinterpret_cast<void*>(first), last - first, MADV_REMOVE) != 0) {
    std::memset(begin, 0, bytes);
    return;
  }
  std::memset(begin, 0, first - address);
  std::memset(reinterpret_cast<void*>(last), 0, address + bytes - last);
}

template <typename T>
void fill_row(std::byte* row, size_t count, unsigned value) {
  if constexpr (sizeof(T) == 1) {
    std::memset(row, static_cast<int>(value), count);
  } else {
    std::fill_n(reinterpret_cast<T*>(row), count, static_cast<T>(value));
  }
}

std::byte* view_of(const CUDA_MEMSET_NODE_PARAMS& fill, View view) {
  const size_t row = fill.width * fill.elementSize;
  return static_cast<std::byte*>(view(fill.dst, (fill.height - 1) * fill.pitch + row));
}

}  // namespace

CUresult check_copy(const CUDA_MEMCPY3D& copy) {
  if (!is_known_type(copy.srcMemoryType) || !is_known_type(copy.dstMemoryType)) {
    return CUDA_ERROR_INVALID_VALUE;
  }
  const Extent extent = extent_of(copy);
  if (is_empty(extent)) return CUDA_SUCCESS;
  for (const Side& side : {source_of(copy), target_of(copy)}) {
    if (!is_wide_enough(side, extent) || view_of(side, extent, host_view) == nullptr) {
      return CUDA_ERROR_INVALID_VALUE;
    }
  }
  return CUDA_SUCCESS;
}

CUresult run_copy(const CUDA_MEMCPY3D& copy) {
  const Extent extent = extent_of(copy);
  if (is_empty(extent)) return CUDA_SUCCESS;
  const Side source = source_of(copy);
  const Side target = target_of(copy);
  const std::byte* from = view_of(source, extent, card_view);
  std::byte* to = view_of(target, extent, card_view);
  if (from == nullptr || to == nullptr) return CUDA_ERROR_ILLEGAL_ADDRESS;
  const CardTime time(way_of(source, target), extent.width * extent.height * extent.depth);
  for (size_t slice = 0; slice < extent.depth; ++slice) {
    for (size_t row = 0; row < extent.height; ++row) {
      std::memmove(to + offset_of(target, row, slice) - offset_of(target, 0, 0),
                   from + offset_of(source, row, slice) - offset_of(source, 0, 0), extent.width);
    }
  }
  return CUDA_SUCCESS;
}

CUresult check_fill(const CUDA_MEMSET_NODE_PARAMS& fill) {
  const size_t size = fill.elementSize;
  if (size != 1 && size != 2 && size != 4) return CUDA_ERROR_INVALID_VALUE;
  if (fill.dst % size != 0) return CUDA_ERROR_INVALID_VALUE;
  if (fill.width == 0 || fill.height == 0) return CUDA_SUCCESS;
  if (fill.height > 1 && (fill.pitch < fill.width * size || fill.pitch % size != 0)) {
    return CUDA_ERROR_INVALID_VALUE;
  }
  return view_of(fill, host_view) != nullptr ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}

CUresult run_fill(const CUDA_MEMSET_NODE_PARAMS& fill) {
  if (fill.width == 0 || fill.height == 0) return CUDA_SUCCESS;
  std::byte* row = view_of(fill, card_view);
  if (row == nullptr) return CUDA_ERROR_ILLEGAL_ADDRESS;
  const CardTime time("card.fill", fill.width * fill.height * fill.elementSize);
  const size_t row_bytes = fill.width * fill.elementSize;
  const bool clears = fill.value == 0 && row_bytes >= kLeastCleared && is_device_address(fill.dst);
  for (size_t y = 0; y < fill.height; ++y, row += fill.pitch) {
    if (clears) {
      clear(row, row_bytes);
      continue;
    }
    switch (fill.elementSize) {
      case 1:
        fill_row<uint8_t>(row, fill.width, fill.value);
        break;
      case 2:
        fill_row<uint16_t>(row, fill.width, fill.value);
        break;
      default:
        fill_row<uint32_t>(row, fill.width, fill.value);
    }
  }
  return CUDA_SUCCESS;
}

bool is_pageable(const void* host) {
  Allocation allocation;
  return !find_allocation(reinterpret_cast<CUdeviceptr>(host), &allocation);
}

CUDA_MEMCPY3D linear_copy(CUmemorytype to, CUdeviceptr dst, CUmemorytype from, CUdeviceptr src,
                          size_t bytes) {
  CUDA_MEMCPY3D copy{};
  copy.srcMemoryType = from;
  copy.srcHost = reinterpret_cast<const void*>(src);
  copy.srcDevice = src;
  copy.dstMemoryType = to;
  copy.dstHost = reinterpret_cast<void*>(dst);
  copy.dstDevice = dst;
  copy.WidthInBytes = bytes;
  copy.Height = 1;
  copy.Depth = 1;
  return copy;
}

}  // namespace vram::sim
