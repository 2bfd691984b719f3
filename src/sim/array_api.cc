// Entry points: arrays and mipmapped arrays, with the interface of before CUDA 3.2.
#include <cuda.h>

#include "sim/array.h"
#include "sim/context.h"
#include "sim/entry.h"
#include "sim/stream.h"
#include "sim/try.h"

using namespace vram::sim;

namespace {

CUresult begin(Context** context) {
  VRAM_SIM_TRY(require_context(context));
  return check_capture_allows_unsafe_call();
}

// Descriptions of both interfaces, plane and volume.
template <typename Plane>
CUDA_ARRAY3D_DESCRIPTOR from_plane(const Plane& plane) {
  CUDA_ARRAY3D_DESCRIPTOR description = {};
  description.Width = plane.Width;
  description.Height = plane.Height;
  description.Format = plane.Format;
  description.NumChannels = plane.NumChannels;
  return description;
}

template <typename Volume>
CUDA_ARRAY3D_DESCRIPTOR from_volume(const Volume& volume) {
  CUDA_ARRAY3D_DESCRIPTOR description = from_plane(volume);
  description.Depth = volume.Depth;
  description.Flags = volume.Flags;
  return description;
}

template <typename Plane>
void to_plane(const CUDA_ARRAY3D_DESCRIPTOR& description, Plane* plane) {
  plane->Width = static_cast<decltype(plane->Width)>(description.Width);
  plane->Height = static_cast<decltype(plane->Height)>(description.Height);
  plane->Format = description.Format;
  plane->NumChannels = description.NumChannels;
}

template <typename Volume>
void to_volume(const CUDA_ARRAY3D_DESCRIPTOR& description, Volume* volume) {
  to_plane(description, volume);
  volume->Depth = static_cast<decltype(volume->Depth)>(description.Depth);
  volume->Flags = description.Flags;
}

template <typename Plane>
CUresult create_plane(CUarray* out, const Plane* plane) {
  Context* context = nullptr;
  VRAM_SIM_TRY(begin(&context));
  if (out == nullptr || plane == nullptr) return CUDA_ERROR_INVALID_VALUE;
  return create_array(*context, from_plane(*plane), out);
}

template <typename Volume>
CUresult create_volume(CUarray* out, const Volume* volume) {
  Context* context = nullptr;
  VRAM_SIM_TRY(begin(&context));
  if (out == nullptr || volume == nullptr) return CUDA_ERROR_INVALID_VALUE;
  return create_array(*context, from_volume(*volume), out);
}

template <typename Plane>
CUresult describe_plane(Plane* plane, CUarray array) {
  Context* context = nullptr;
  VRAM_SIM_TRY(require_context(&context));
  if (plane == nullptr) return CUDA_ERROR_INVALID_VALUE;
  CUDA_ARRAY3D_DESCRIPTOR description;
  VRAM_SIM_TRY(describe_array(array, &description));
  to_plane(description, plane);
  return CUDA_SUCCESS;
}

template <typename Volume>
CUresult describe_volume(Volume* volume, CUarray array) {
  Context* context = nullptr;
  VRAM_SIM_TRY(require_context(&context));
  if (volume == nullptr) return CUDA_ERROR_INVALID_VALUE;
  CUDA_ARRAY3D_DESCRIPTOR description;
  VRAM_SIM_TRY(describe_array(array, &description));
  to_volume(description, volume);
  return CUDA_SUCCESS;
}

template <typename Handle>
CUresult requirements(CUDA_ARRAY_MEMORY_REQUIREMENTS* out, Handle handle, CUdevice device) {
  VRAM_SIM_TRY(require_device(device));
  if (out == nullptr) return CUDA_ERROR_INVALID_VALUE;
  return requirements_of(handle, out);
}

template <typename Handle>
CUresult sparse_properties(CUDA_ARRAY_SPARSE_PROPERTIES* out, Handle handle) {
  VRAM_SIM_TRY(require_initialized());
  if (out == nullptr) return CUDA_ERROR_INVALID_VALUE;
  return sparse_properties_of(handle, out);
}

}  // namespace

CUresult cuArrayCreate(CUarray* out, const CUDA_ARRAY_DESCRIPTOR_v1* plane) {
  VRAM_SIM_ENTER();
  return create_plane(out, plane);
}

CUresult cuArrayCreate_v2(CUarray* out, const CUDA_ARRAY_DESCRIPTOR* plane) {
  VRAM_SIM_ENTER();
  return create_plane(out, plane);
}

CUresult cuArray3DCreate(CUarray* out, const CUDA_ARRAY3D_DESCRIPTOR_v1* volume) {
  VRAM_SIM_ENTER();
  return create_volume(out, volume);
}

CUresult cuArray3DCreate_v2(CUarray* out, const CUDA_ARRAY3D_DESCRIPTOR* volume) {
  VRAM_SIM_ENTER();
  return create_volume(out, volume);
}

CUresult cuArrayGetDescriptor(CUDA_ARRAY_DESCRIPTOR_v1* plane, CUarray array) {
  VRAM_SIM_ENTER();
  return describe_plane(plane, array);
}

CUresult cuArrayGetDescriptor_v2(CUDA_ARRAY_DESCRIPTOR* plane, CUarray array) {
  VRAM_SIM_ENTER();
  return describe_plane(plane, array);
}

CUresult cuArray3DGetDescriptor(CUDA_ARRAY3D_DESCRIPTOR_v1* volume, CUarray array) {
  VRAM_SIM_ENTER();
  return describe_volume(volume, array);
}

CUresult cuArray3DGetDescriptor_v2(CUDA_ARRAY3D_DESCRIPTOR* volume, CUarray array) {
  VRAM_SIM_ENTER();
  return describe_volume(volume, array);
}

CUresult cuArrayDestroy(CUarray array) {
  VRAM_SIM_ENTER();
  Context* context = nullptr;
  VRAM_SIM_TRY(begin(&context));
  VRAM_SIM_TRY(synchronise_context(*context));
  return destroy_array(array);
}

CUresult cuMipmappedArrayCreate(CUmipmappedArray* out, const CUDA_ARRAY3D_DESCRIPTOR* volume,
                                unsigned int levels) {
  VRAM_SIM_ENTER();
  Context* context = nullptr;
  VRAM_SIM_TRY(begin(&context));
  if (out == nullptr || volume == nullptr) return CUDA_ERROR_INVALID_VALUE;
  return create_mipmap(*context, *volume, levels, out);
}

CUresult cuMipmappedArrayDestroy(CUmipmappedArray mipmap) {
  VRAM_SIM_ENTER();
  Context* context = nullptr;
  VRAM_SIM_TRY(begin(&context));
  VRAM_SIM_TRY(synchronise_context(*context));
  return destroy_mipmap(mipmap);
}

CUresult cuMipmappedArrayGetLevel(CUarray* out, CUmipmappedArray mipmap, unsigned int level) {
  VRAM_SIM_ENTER();
  VRAM_SIM_TRY(require_initialized());
  if (out == nullptr) return CUDA_ERROR_INVALID_VALUE;
  return mipmap_level(mipmap, level, out);
}

CUresult cuArrayGetMemoryRequirements(CUDA_ARRAY_MEMORY_REQUIREMENTS* out, CUarray array,
                                      CUdevice device) {
  VRAM_SIM_ENTER();
  return requirements(out, array, device);
}

CUresult cuMipmappedArrayGetMemoryRequirements(CUDA_ARRAY_MEMORY_REQUIREMENTS* out,
                                               CUmipmappedArray mipmap, CUdevice device) {
  VRAM_SIM_ENTER();
  return requirements(out, mipmap, device);
}

CUresult cuArrayGetSparseProperties(CUDA_ARRAY_SPARSE_PROPERTIES* out, CUarray array) {
  VRAM_SIM_ENTER();
  return sparse_properties(out, array);
}

CUresult cuMipmappedArrayGetSparseProperties(CUDA_ARRAY_SPARSE_PROPERTIES* out,
                                             CUmipmappedArray mipmap) {
  VRAM_SIM_ENTER();
  return sparse_properties(out, mipmap);
}
