#include "sim/array.h"

#include <algorithm>
#include <memory>
#include <mutex>
#include <unordered_map>
#include <vector>

#include "sim/array_shape.h"
#include "sim/memory.h"
#include "sim/registry.h"
#include "sim/try.h"

namespace vram::sim {
namespace {

constexpr unsigned kWithoutMemory = CUDA_ARRAY3D_SPARSE | CUDA_ARRAY3D_DEFERRED_MAPPING;

struct Mipmap;

struct Array {
  Context* context = nullptr;
  CUDA_ARRAY3D_DESCRIPTOR description{};
  ArrayView view;
  Mipmap* mipmap = nullptr;  // that it is a level of
};

struct Mipmap {
  Context* context = nullptr;
  CUDA_ARRAY3D_DESCRIPTOR description{};
  CUdeviceptr base = 0;
  uint64_t bytes = 0;
  std::vector<std::unique_ptr<Array>> levels;
};

struct Arrays {
  std::mutex mutex;
  std::unordered_map<CUarray, Array*> arrays;  // levels too
  std::unordered_map<CUmipmappedArray, std::unique_ptr<Mipmap>> mipmaps;
};

CUarray handle_of(Array& array) { return reinterpret_cast<CUarray>(&array); }
CUmipmappedArray handle_of(Mipmap& mipmap) { return reinterpret_cast<CUmipmappedArray>(&mipmap); }

Arrays& arrays();

// The memory goes with the context, the objects with it.
void forget_context(Context& context) {
  const std::lock_guard held(arrays().mutex);
  std::erase_if(arrays().mipmaps,
                [&](const auto& entry) { return entry.second->context == &context; });
  std::erase_if(arrays().arrays, [&](const auto& entry) {
    if (entry.second->context != &context) return false;
    if (entry.second->mipmap == nullptr) delete entry.second;
    return true;
  });
}

Arrays& arrays() {
  static Arrays* const instance = [] {
    add_context_destroyed_hook(forget_context);
    return new Arrays;
  }();
  return *instance;
}

// The caller holds the lock, as for the other two.
Array* find_array(CUarray handle) {
  const auto found = arrays().arrays.find(handle);
  return found == arrays().arrays.end() ? nullptr : found->second;
}

Mipmap* find_mipmap(CUmipmappedArray handle) {
  const auto found = arrays().mipmaps.find(handle);
  return found == arrays().mipmaps.end() ? nullptr : found->second.get();
}

CUresult require_without_memory(unsigned flags) {
  return (flags & kWithoutMemory) != 0 ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}

}  // namespace

CUresult create_array(Context& context, const CUDA_ARRAY3D_DESCRIPTOR& description, CUarray* out) {
  auto array = std::make_unique<Array>();
  array->context = &context;
  array->description = description;
  VRAM_SIM_TRY(shape_of(description, &array->view));
  if ((description.Flags & kWithoutMemory) == 0) {
    VRAM_SIM_TRY(device_allocate(context, shape_bytes(array->view), &array->view.base,
                                 array->view.width_bytes / description.Width));
  }
  const std::lock_guard held(arrays().mutex);
  *out = handle_of(*array);
  arrays().arrays[*out] = array.release();
  return CUDA_SUCCESS;
}

CUresult destroy_array(CUarray handle) {
  CUdeviceptr base = 0;
  {
    const std::lock_guard held(arrays().mutex);
    Array* const array = find_array(handle);
    if (array == nullptr || array->mipmap != nullptr) return CUDA_ERROR_INVALID_HANDLE;
    base = array->view.base;
    arrays().arrays.erase(handle);
    delete array;
  }
  return base == 0 ? CUDA_SUCCESS : device_free(base);
}

CUresult view_array(CUarray handle, ArrayView* out) {
  const std::lock_guard held(arrays().mutex);
  const Array* const array = find_array(handle);
  if (array == nullptr) return CUDA_ERROR_INVALID_HANDLE;
  *out = array->view;
  return CUDA_SUCCESS;
}

CUresult describe_array(CUarray handle, CUDA_ARRAY3D_DESCRIPTOR* out) {
  const std::lock_guard held(arrays().mutex);
  const Array* const array = find_array(handle);
  if (array == nullptr) return CUDA_ERROR_INVALID_HANDLE;
  *out = array->description;
  return CUDA_SUCCESS;
}

CUresult create_mipmap(Context& context, const CUDA_ARRAY3D_DESCRIPTOR& description,
                       unsigned levels, CUmipmappedArray* out) {
  if (levels == 0) return CUDA_ERROR_INVALID_VALUE;
  auto mipmap = std::make_unique<Mipmap>();
  mipmap->context = &context;
  mipmap->description = description;
  // More levels than the largest has halvings are clamped, as CUDA does.
  CUDA_ARRAY3D_DESCRIPTOR level = description;
  for (unsigned i = 0; i < levels; ++i) {
    auto array = std::make_unique<Array>();
    array->context = &context;
    array->description = level;
    array->mipmap = mipmap.get();
    VRAM_SIM_TRY(shape_of(level, &array->view));
    array->view.base = mipmap->bytes;  // for now relative to the block
    mipmap->bytes += round_up(shape_bytes(array->view), kLevelAlignment);
    mipmap->levels.push_back(std::move(array));
    if (!halve(&level)) break;
  }
  if ((description.Flags & kWithoutMemory) == 0) {
    VRAM_SIM_TRY(device_allocate(context, mipmap->bytes, &mipmap->base,
                                 mipmap->levels[0]->view.width_bytes / description.Width));
  }
  const std::lock_guard held(arrays().mutex);
  for (const auto& array : mipmap->levels) {
    array->view.base = mipmap->base == 0 ? 0 : mipmap->base + array->view.base;
    arrays().arrays[handle_of(*array)] = array.get();
  }
  *out = handle_of(*mipmap);
  arrays().mipmaps[*out] = std::move(mipmap);
  return CUDA_SUCCESS;
}

CUresult destroy_mipmap(CUmipmappedArray handle) {
  CUdeviceptr base = 0;
  {
    const std::lock_guard held(arrays().mutex);
    const Mipmap* const mipmap = find_mipmap(handle);
    if (mipmap == nullptr) return CUDA_ERROR_INVALID_HANDLE;
    base = mipmap->base;
    for (const auto& array : mipmap->levels) arrays().arrays.erase(handle_of(*array));
    arrays().mipmaps.erase(handle);
  }
  return base == 0 ? CUDA_SUCCESS : device_free(base);
}

CUresult mipmap_level(CUmipmappedArray handle, unsigned level, CUarray* out) {
  const std::lock_guard held(arrays().mutex);
  const Mipmap* const mipmap = find_mipmap(handle);
  if (mipmap == nullptr) return CUDA_ERROR_INVALID_HANDLE;
  if (level >= mipmap->levels.size()) return CUDA_ERROR_INVALID_VALUE;
  *out = handle_of(*mipmap->levels[level]);
  return CUDA_SUCCESS;
}

CUresult requirements_of(CUarray handle, CUDA_ARRAY_MEMORY_REQUIREMENTS* out) {
  const std::lock_guard held(arrays().mutex);
  const Array* const array = find_array(handle);
  if (array == nullptr) return CUDA_ERROR_INVALID_HANDLE;
  VRAM_SIM_TRY(require_without_memory(array->description.Flags));
  *out = requirements_for(shape_bytes(array->view));
  return CUDA_SUCCESS;
}

CUresult requirements_of(CUmipmappedArray handle, CUDA_ARRAY_MEMORY_REQUIREMENTS* out) {
  const std::lock_guard held(arrays().mutex);
  const Mipmap* const mipmap = find_mipmap(handle);
  if (mipmap == nullptr) return CUDA_ERROR_INVALID_HANDLE;
  VRAM_SIM_TRY(require_without_memory(mipmap->description.Flags));
  *out = requirements_for(mipmap->bytes);
  return CUDA_SUCCESS;
}

CUresult sparse_properties_of(CUarray handle, CUDA_ARRAY_SPARSE_PROPERTIES* out) {
  const std::lock_guard held(arrays().mutex);
  const Array* const array = find_array(handle);
  if (array == nullptr) return CUDA_ERROR_INVALID_HANDLE;
  return tiles_of(array->description, 1, out);
}

CUresult sparse_properties_of(CUmipmappedArray handle, CUDA_ARRAY_SPARSE_PROPERTIES* out) {
  const std::lock_guard held(arrays().mutex);
  const Mipmap* const mipmap = find_mipmap(handle);
  if (mipmap == nullptr) return CUDA_ERROR_INVALID_HANDLE;
  return tiles_of(mipmap->description, static_cast<unsigned>(mipmap->levels.size()), out);
}

}  // namespace vram::sim
