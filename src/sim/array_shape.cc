#include "sim/array_shape.h"

#include <algorithm>
#include <iterator>

#include "sim/identity.h"
#include "sim/registry.h"
#include "sim/try.h"

namespace vram::sim {
namespace {

// Bytes lie in tiles of 64 bytes by 8 rows, and up to 16 tiles stand on one another in a block:
// 1000 x 1000 floats take 4032 x 1024 bytes on an H200.
constexpr size_t kTileBytes = 64;
constexpr size_t kTileRows = 8;
constexpr size_t kMostTiles = 16;
// Of any dimension; keeps the products below from overflowing.
constexpr size_t kLargestExtent = 1u << 20;

CUresult element_bytes(CUarray_format format, unsigned channels, size_t* out) {
  size_t channel = 0;
  switch (format) {
    case CU_AD_FORMAT_UNSIGNED_INT8:
    case CU_AD_FORMAT_SIGNED_INT8:
      channel = 1;
      break;
    case CU_AD_FORMAT_UNSIGNED_INT16:
    case CU_AD_FORMAT_SIGNED_INT16:
    case CU_AD_FORMAT_HALF:
      channel = 2;
      break;
    case CU_AD_FORMAT_UNSIGNED_INT32:
    case CU_AD_FORMAT_SIGNED_INT32:
    case CU_AD_FORMAT_FLOAT:
      channel = 4;
      break;
    default:
      return CUDA_ERROR_NOT_SUPPORTED;
  }
  if (channels != 1 && channels != 2 && channels != 4) return CUDA_ERROR_INVALID_VALUE;
  *out = channel * channels;
  return CUDA_SUCCESS;
}

size_t padded_rows(size_t rows) {
  if (rows == 0) return 1;  // one dimension
  size_t block = kTileRows;
  while (block < rows && block < kTileRows * kMostTiles) block *= 2;
  return round_up(rows, block);
}

unsigned half(size_t extent) { return static_cast<unsigned>(std::max<size_t>(extent / 2, 1)); }

}  // namespace

CUresult shape_of(const CUDA_ARRAY3D_DESCRIPTOR& description, ArrayView* out) {
  size_t element = 0;
  VRAM_SIM_TRY(element_bytes(description.Format, description.NumChannels, &element));
  const size_t largest = std::max({description.Width, description.Height, description.Depth});
  if (description.Width == 0 || largest > kLargestExtent) return CUDA_ERROR_INVALID_VALUE;
  out->width_bytes = description.Width * element;
  out->height = std::max<size_t>(description.Height, 1);
  out->depth = std::max<size_t>(description.Depth, 1);
  out->pitch = round_up(out->width_bytes, kTileBytes);
  out->rows_per_slice = padded_rows(description.Height);
  return CUDA_SUCCESS;
}

uint64_t shape_bytes(const ArrayView& view) {
  return view.pitch * view.rows_per_slice * view.depth;
}

bool halve(CUDA_ARRAY3D_DESCRIPTOR* description) {
  const bool layered = (description->Flags & (CUDA_ARRAY3D_LAYERED | CUDA_ARRAY3D_CUBEMAP)) != 0;
  const size_t depth = layered ? 1 : description->Depth;
  if (std::max({description->Width, description->Height, depth}) <= 1) return false;
  description->Width = half(description->Width);
  if (description->Height != 0) description->Height = half(description->Height);
  if (!layered && description->Depth != 0) description->Depth = half(description->Depth);
  return true;
}

CUDA_ARRAY_MEMORY_REQUIREMENTS requirements_for(uint64_t bytes) {
  CUDA_ARRAY_MEMORY_REQUIREMENTS requirements = {};
  requirements.size = bytes;
  requirements.alignment = kPieceBytes;
  return requirements;
}

CUresult tiles_of(const CUDA_ARRAY3D_DESCRIPTOR& description, unsigned levels,
                  CUDA_ARRAY_SPARSE_PROPERTIES* out) {
  if ((description.Flags & CUDA_ARRAY3D_SPARSE) == 0) return CUDA_ERROR_INVALID_VALUE;
  size_t element = 0;
  VRAM_SIM_TRY(element_bytes(description.Format, description.NumChannels, &element));
  struct Tile {
    size_t element;
    unsigned plane[2];
    unsigned volume[3];
  };
  static constexpr Tile kTiles[] = {{1, {256, 256}, {64, 32, 32}},
                                    {2, {256, 128}, {32, 32, 32}},
                                    {4, {128, 128}, {32, 32, 16}},
                                    {8, {128, 64}, {32, 16, 16}},
                                    {16, {64, 64}, {16, 16, 16}}};
  const Tile& tile = *std::find_if(std::begin(kTiles), std::end(kTiles),
                                   [&](const Tile& row) { return row.element == element; });
  const bool volume = description.Depth != 0 && (description.Flags & CUDA_ARRAY3D_LAYERED) == 0;
  *out = {};
  out->tileExtent.width = volume ? tile.volume[0] : tile.plane[0];
  out->tileExtent.height = volume ? tile.volume[1] : tile.plane[1];
  out->tileExtent.depth = volume ? tile.volume[2] : 1;
  out->miptailFirstLevel = levels;  // none
  return CUDA_SUCCESS;
}

}  // namespace vram::sim
