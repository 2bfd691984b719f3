// Allocation, copies and fills.
#include "sim/runtime/runtime.h"

namespace vram::sim::runtime {
namespace {

CUmemorytype source_type(cudaMemcpyKind kind) {
  switch (kind) {
    case cudaMemcpyHostToHost:
    case cudaMemcpyHostToDevice:
      return CU_MEMORYTYPE_HOST;
    case cudaMemcpyDeviceToHost:
    case cudaMemcpyDeviceToDevice:
      return CU_MEMORYTYPE_DEVICE;
    default:
      return CU_MEMORYTYPE_UNIFIED;
  }
}

CUmemorytype target_type(cudaMemcpyKind kind) {
  switch (kind) {
    case cudaMemcpyHostToHost:
    case cudaMemcpyDeviceToHost:
      return CU_MEMORYTYPE_HOST;
    case cudaMemcpyHostToDevice:
    case cudaMemcpyDeviceToDevice:
      return CU_MEMORYTYPE_DEVICE;
    default:
      return CU_MEMORYTYPE_UNIFIED;
  }
}

bool is_kind(cudaMemcpyKind kind) {
  return kind >= cudaMemcpyHostToHost && kind <= cudaMemcpyDefault;
}

template <typename Descriptor>
void set_source(Descriptor* copy, CUmemorytype type, const void* pointer, size_t pitch) {
  copy->srcMemoryType = type;
  copy->srcHost = pointer;
  copy->srcDevice = address_of(pointer);
  copy->srcPitch = pitch;
}

template <typename Descriptor>
void set_target(Descriptor* copy, CUmemorytype type, void* pointer, size_t pitch) {
  copy->dstMemoryType = type;
  copy->dstHost = pointer;
  copy->dstDevice = address_of(pointer);
  copy->dstPitch = pitch;
}

CUresult copy_row(void* to, const void* from, size_t bytes, cudaMemcpyKind kind) {
  if (!is_kind(kind)) return static_cast<CUresult>(cudaErrorInvalidMemcpyDirection);
  if (bytes == 0) return CUDA_SUCCESS;
  switch (kind) {
    case cudaMemcpyHostToDevice:
      return cuMemcpyHtoD(address_of(to), from, bytes);
    case cudaMemcpyDeviceToHost:
      return cuMemcpyDtoH(to, address_of(from), bytes);
    case cudaMemcpyDeviceToDevice:
      return cuMemcpyDtoD(address_of(to), address_of(from), bytes);
    default:
      return cuMemcpy(address_of(to), address_of(from), bytes);
  }
}

CUresult copy_row_async(void* to, const void* from, size_t bytes, cudaMemcpyKind kind,
                        CUstream stream) {
  if (!is_kind(kind)) return static_cast<CUresult>(cudaErrorInvalidMemcpyDirection);
  if (bytes == 0) return CUDA_SUCCESS;
  switch (kind) {
    case cudaMemcpyHostToDevice:
      return cuMemcpyHtoDAsync(address_of(to), from, bytes, stream);
    case cudaMemcpyDeviceToHost:
      return cuMemcpyDtoHAsync(to, address_of(from), bytes, stream);
    case cudaMemcpyDeviceToDevice:
      return cuMemcpyDtoDAsync(address_of(to), address_of(from), bytes, stream);
    default:
      return cuMemcpyAsync(address_of(to), address_of(from), bytes, stream);
  }
}

CUDA_MEMCPY2D rows(void* to, size_t to_pitch, const void* from, size_t from_pitch, size_t width,
                   size_t height, cudaMemcpyKind kind) {
  CUDA_MEMCPY2D copy{};
  set_source(&copy, source_type(kind), from, from_pitch);
  set_target(&copy, target_type(kind), to, to_pitch);
  copy.WidthInBytes = width;
  copy.Height = height;
  return copy;
}

size_t element_bytes(CUarray array) {
  CUDA_ARRAY_DESCRIPTOR description{};
  if (cuArrayGetDescriptor(&description, array) != CUDA_SUCCESS) return 1;
  switch (description.Format) {
    case CU_AD_FORMAT_UNSIGNED_INT8:
    case CU_AD_FORMAT_SIGNED_INT8:
      return description.NumChannels;
    case CU_AD_FORMAT_UNSIGNED_INT16:
    case CU_AD_FORMAT_SIGNED_INT16:
    case CU_AD_FORMAT_HALF:
      return size_t{description.NumChannels} * 2;
    default:
      return size_t{description.NumChannels} * 4;
  }
}

// Widths count elements where an array takes part, bytes otherwise.
CUDA_MEMCPY3D slices(const cudaMemcpy3DParms& in) {
  CUDA_MEMCPY3D copy{};
  set_source(&copy, source_type(in.kind), in.srcPtr.ptr, in.srcPtr.pitch);
  set_target(&copy, target_type(in.kind), in.dstPtr.ptr, in.dstPtr.pitch);
  const auto from = reinterpret_cast<CUarray>(in.srcArray);
  const auto to = reinterpret_cast<CUarray>(in.dstArray);
  size_t unit = 1;
  if (from != nullptr) {
    copy.srcMemoryType = CU_MEMORYTYPE_ARRAY;
    copy.srcArray = from;
    unit = element_bytes(from);
  }
  if (to != nullptr) {
    copy.dstMemoryType = CU_MEMORYTYPE_ARRAY;
    copy.dstArray = to;
    unit = element_bytes(to);
  }
  copy.srcXInBytes = in.srcPos.x * (from != nullptr ? unit : 1);
  copy.srcY = in.srcPos.y;
  copy.srcZ = in.srcPos.z;
  copy.srcHeight = in.srcPtr.ysize;
  copy.dstXInBytes = in.dstPos.x * (to != nullptr ? unit : 1);
  copy.dstY = in.dstPos.y;
  copy.dstZ = in.dstPos.z;
  copy.dstHeight = in.dstPtr.ysize;
  copy.WidthInBytes = in.extent.width * unit;
  copy.Height = in.extent.height;
  copy.Depth = in.extent.depth;
  return copy;
}

// The address of a variable's byte, checked against its end.
CUresult within_variable(const void* symbol, size_t offset, size_t bytes, void** out) {
  CUdeviceptr address = 0;
  size_t all = 0;
  VRAM_RT_TRY(variable_of(symbol, &address, &all));
  if (offset > all || bytes > all - offset) return CUDA_ERROR_INVALID_VALUE;
  *out = reinterpret_cast<void*>(address + offset);
  return CUDA_SUCCESS;
}

cudaMemoryType type_of(CUmemorytype type, unsigned is_managed) {
  if (is_managed != 0) return cudaMemoryTypeManaged;
  return type == CU_MEMORYTYPE_HOST ? cudaMemoryTypeHost : cudaMemoryTypeDevice;
}

// Memory that the driver does not know is the host's own.
CUresult attributes_of(const void* pointer, cudaPointerAttributes* out) {
  cudaPointerAttributes attributes{};
  attributes.device = -2;
  attributes.type = cudaMemoryTypeUnregistered;
  attributes.hostPointer = const_cast<void*>(pointer);
  CUmemorytype type{};
  if (cuPointerGetAttribute(&type, CU_POINTER_ATTRIBUTE_MEMORY_TYPE, address_of(pointer)) ==
      CUDA_SUCCESS) {
    unsigned managed = 0;
    static_cast<void>(
        cuPointerGetAttribute(&managed, CU_POINTER_ATTRIBUTE_IS_MANAGED, address_of(pointer)));
    attributes.type = type_of(type, managed);
    attributes.device = chosen_device();
    static_cast<void>(cuPointerGetAttribute(&attributes.device, CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL,
                                            address_of(pointer)));
    attributes.devicePointer = const_cast<void*>(pointer);
    if (attributes.type == cudaMemoryTypeDevice) attributes.hostPointer = nullptr;
  }
  *out = attributes;
  return CUDA_SUCCESS;
}

CUdeviceptr* as_address(void** out) { return reinterpret_cast<CUdeviceptr*>(out); }

}  // namespace
}  // namespace vram::sim::runtime

using namespace vram::sim::runtime;

extern "C" {

VRAM_RT(cudaMalloc, (void** out, size_t bytes), {
  if (out == nullptr) return CUDA_ERROR_INVALID_VALUE;
  *out = nullptr;
  return bytes == 0 ? CUDA_SUCCESS : cuMemAlloc(as_address(out), bytes);
})
VRAM_RT(cudaFree, (void* pointer), { return cuMemFree(address_of(pointer)); })
VRAM_RT(cudaMallocHost, (void** out, size_t bytes), { return cuMemAllocHost(out, bytes); })
VRAM_RT(cudaHostAlloc, (void** out, size_t bytes, unsigned flags),
        { return cuMemHostAlloc(out, bytes, flags); })
VRAM_RT(cudaFreeHost, (void* pointer),
        { return pointer == nullptr ? CUDA_SUCCESS : cuMemFreeHost(pointer); })
VRAM_RT(cudaHostRegister, (void* pointer, size_t bytes, unsigned flags),
        { return cuMemHostRegister(pointer, bytes, flags); })
VRAM_RT(cudaHostUnregister, (void* pointer), { return cuMemHostUnregister(pointer); })
VRAM_RT(cudaHostGetDevicePointer, (void** out, void* pointer, unsigned flags),
        { return cuMemHostGetDevicePointer(as_address(out), pointer, flags); })
VRAM_RT(cudaHostGetFlags, (unsigned* flags, void* pointer),
        { return cuMemHostGetFlags(flags, pointer); })
VRAM_RT(cudaMallocManaged, (void** out, size_t bytes, unsigned flags),
        { return cuMemAllocManaged(as_address(out), bytes, flags); })
VRAM_RT(cudaMallocPitch, (void** out, size_t* pitch, size_t width, size_t height),
        { return cuMemAllocPitch(as_address(out), pitch, width, height, 4); })
VRAM_RT(cudaMalloc3D, (cudaPitchedPtr * out, cudaExtent extent), {
  if (out == nullptr) return CUDA_ERROR_INVALID_VALUE;
  cudaPitchedPtr block{};
  block.xsize = extent.width;
  block.ysize = extent.height;
  VRAM_RT_TRY(cuMemAllocPitch(as_address(&block.ptr), &block.pitch, extent.width,
                              extent.height * extent.depth, 4));
  *out = block;
  return CUDA_SUCCESS;
})
VRAM_RT_STREAM(cudaMallocAsync, (void** out, size_t bytes, cudaStream_t stream),
               (out, bytes, stream), { return cuMemAllocAsync(as_address(out), bytes, stream); })
VRAM_RT_STREAM(cudaMallocFromPoolAsync,
               (void** out, size_t bytes, cudaMemPool_t pool, cudaStream_t stream),
               (out, bytes, pool, stream),
               { return cuMemAllocFromPoolAsync(as_address(out), bytes, pool, stream); })
VRAM_RT_STREAM(cudaFreeAsync, (void* pointer, cudaStream_t stream), (pointer, stream),
               { return cuMemFreeAsync(address_of(pointer), stream); })

VRAM_RT(cudaMemcpy, (void* to, const void* from, size_t bytes, cudaMemcpyKind kind),
        { return copy_row(to, from, bytes, kind); })
VRAM_RT(cudaMemcpy_ptds, (void* to, const void* from, size_t bytes, cudaMemcpyKind kind), {
  VRAM_RT_TRY(copy_row_async(to, from, bytes, kind, CU_STREAM_PER_THREAD));
  return cuStreamSynchronize(CU_STREAM_PER_THREAD);
})
VRAM_RT_STREAM(cudaMemcpyAsync,
               (void* to, const void* from, size_t bytes, cudaMemcpyKind kind, cudaStream_t stream),
               (to, from, bytes, kind, stream),
               { return copy_row_async(to, from, bytes, kind, stream); })
VRAM_RT(cudaMemcpyPeer, (void* to, int, const void* from, int, size_t bytes),
        { return cuMemcpy(address_of(to), address_of(from), bytes); })
VRAM_RT(cudaMemcpyPeerAsync,
        (void* to, int, const void* from, int, size_t bytes, cudaStream_t stream),
        { return cuMemcpyAsync(address_of(to), address_of(from), bytes, stream); })
VRAM_RT(cudaMemcpy2D,
        (void* to, size_t to_pitch, const void* from, size_t from_pitch, size_t width,
         size_t height, cudaMemcpyKind kind),
        {
          const CUDA_MEMCPY2D copy = rows(to, to_pitch, from, from_pitch, width, height, kind);
          return cuMemcpy2DUnaligned(&copy);
        })
cudaError_t cudaMemcpy2D_ptds(void* to, size_t to_pitch, const void* from, size_t from_pitch,
                              size_t width, size_t height, cudaMemcpyKind kind) {
  const cudaError_t error =
      cudaMemcpy2DAsync(to, to_pitch, from, from_pitch, width, height, kind, cudaStreamPerThread);
  return error != cudaSuccess ? error : cudaStreamSynchronize(cudaStreamPerThread);
}
VRAM_RT_STREAM(cudaMemcpy2DAsync,
               (void* to, size_t to_pitch, const void* from, size_t from_pitch, size_t width,
                size_t height, cudaMemcpyKind kind, cudaStream_t stream),
               (to, to_pitch, from, from_pitch, width, height, kind, stream), {
                 const CUDA_MEMCPY2D copy =
                     rows(to, to_pitch, from, from_pitch, width, height, kind);
                 return cuMemcpy2DAsync(&copy, stream);
               })
VRAM_RT(cudaMemcpy3D, (const cudaMemcpy3DParms* parameters), {
  if (parameters == nullptr) return CUDA_ERROR_INVALID_VALUE;
  const CUDA_MEMCPY3D copy = slices(*parameters);
  return cuMemcpy3D(&copy);
})
cudaError_t cudaMemcpy3D_ptds(const cudaMemcpy3DParms* parameters) {
  const cudaError_t error = cudaMemcpy3DAsync(parameters, cudaStreamPerThread);
  return error != cudaSuccess ? error : cudaStreamSynchronize(cudaStreamPerThread);
}
VRAM_RT_STREAM(cudaMemcpy3DAsync, (const cudaMemcpy3DParms* parameters, cudaStream_t stream),
               (parameters, stream), {
                 if (parameters == nullptr) return CUDA_ERROR_INVALID_VALUE;
                 const CUDA_MEMCPY3D copy = slices(*parameters);
                 return cuMemcpy3DAsync(&copy, stream);
               })

VRAM_RT(cudaMemset, (void* to, int value, size_t bytes),
        { return cuMemsetD8(address_of(to), static_cast<unsigned char>(value), bytes); })
cudaError_t cudaMemset_ptds(void* to, int value, size_t bytes) {
  return cudaMemsetAsync(to, value, bytes, cudaStreamPerThread);
}
VRAM_RT_STREAM(cudaMemsetAsync, (void* to, int value, size_t bytes, cudaStream_t stream),
               (to, value, bytes, stream), {
                 return cuMemsetD8Async(address_of(to), static_cast<unsigned char>(value), bytes,
                                        stream);
               })
VRAM_RT(cudaMemset2D, (void* to, size_t pitch, int value, size_t width, size_t height), {
  return cuMemsetD2D8(address_of(to), pitch, static_cast<unsigned char>(value), width, height);
})
cudaError_t cudaMemset2D_ptds(void* to, size_t pitch, int value, size_t width, size_t height) {
  return cudaMemset2DAsync(to, pitch, value, width, height, cudaStreamPerThread);
}
VRAM_RT_STREAM(cudaMemset2DAsync,
               (void* to, size_t pitch, int value, size_t width, size_t height,
                cudaStream_t stream),
               (to, pitch, value, width, height, stream), {
                 return cuMemsetD2D8Async(address_of(to), pitch, static_cast<unsigned char>(value),
                                          width, height, stream);
               })

VRAM_RT(cudaGetSymbolAddress, (void** out, const void* symbol), {
  size_t bytes = 0;
  return variable_of(symbol, as_address(out), &bytes);
})
VRAM_RT(cudaGetSymbolSize, (size_t * bytes, const void* symbol), {
  CUdeviceptr address = 0;
  return variable_of(symbol, &address, bytes);
})
VRAM_RT(cudaMemcpyToSymbol,
        (const void* symbol, const void* from, size_t bytes, size_t offset, cudaMemcpyKind kind), {
          void* to = nullptr;
          VRAM_RT_TRY(within_variable(symbol, offset, bytes, &to));
          return copy_row(to, from, bytes, kind);
        })
VRAM_RT(cudaMemcpyFromSymbol,
        (void* to, const void* symbol, size_t bytes, size_t offset, cudaMemcpyKind kind), {
          void* from = nullptr;
          VRAM_RT_TRY(within_variable(symbol, offset, bytes, &from));
          return copy_row(to, from, bytes, kind);
        })
cudaError_t cudaMemcpyToSymbol_ptds(const void* symbol, const void* from, size_t bytes,
                                    size_t offset, cudaMemcpyKind kind) {
  const cudaError_t error =
      cudaMemcpyToSymbolAsync(symbol, from, bytes, offset, kind, cudaStreamPerThread);
  return error != cudaSuccess ? error : cudaStreamSynchronize(cudaStreamPerThread);
}
cudaError_t cudaMemcpyFromSymbol_ptds(void* to, const void* symbol, size_t bytes, size_t offset,
                                      cudaMemcpyKind kind) {
  const cudaError_t error =
      cudaMemcpyFromSymbolAsync(to, symbol, bytes, offset, kind, cudaStreamPerThread);
  return error != cudaSuccess ? error : cudaStreamSynchronize(cudaStreamPerThread);
}
VRAM_RT_STREAM(cudaMemcpyToSymbolAsync,
               (const void* symbol, const void* from, size_t bytes, size_t offset,
                cudaMemcpyKind kind, cudaStream_t stream),
               (symbol, from, bytes, offset, kind, stream), {
                 void* to = nullptr;
                 VRAM_RT_TRY(within_variable(symbol, offset, bytes, &to));
                 return copy_row_async(to, from, bytes, kind, stream);
               })
VRAM_RT_STREAM(cudaMemcpyFromSymbolAsync,
               (void* to, const void* symbol, size_t bytes, size_t offset, cudaMemcpyKind kind,
                cudaStream_t stream),
               (to, symbol, bytes, offset, kind, stream), {
                 void* from = nullptr;
                 VRAM_RT_TRY(within_variable(symbol, offset, bytes, &from));
                 return copy_row_async(to, from, bytes, kind, stream);
               })

VRAM_RT(cudaPointerGetAttributes, (cudaPointerAttributes * attributes, const void* pointer), {
  if (attributes == nullptr) return CUDA_ERROR_INVALID_VALUE;
  return attributes_of(pointer, attributes);
})
VRAM_RT_STREAM(
    cudaMemPrefetchAsync,
    (const void* pointer, size_t bytes, cudaMemLocation location, unsigned flags,
     cudaStream_t stream),
    (pointer, bytes, location, flags, stream), {
      const CUmemLocation place{static_cast<CUmemLocationType>(location.type), location.id};
      return cuMemPrefetchAsync(address_of(pointer), bytes, place, flags, stream);
    })
VRAM_RT(cudaMemAdvise,
        (const void* pointer, size_t bytes, cudaMemoryAdvise advice, cudaMemLocation location), {
          const CUmemLocation place{static_cast<CUmemLocationType>(location.type), location.id};
          return cuMemAdvise(address_of(pointer), bytes, static_cast<CUmem_advise>(advice), place);
        })

VRAM_RT(cudaIpcGetMemHandle, (cudaIpcMemHandle_t * handle, void* pointer), {
  return cuIpcGetMemHandle(reinterpret_cast<CUipcMemHandle*>(handle), address_of(pointer));
})
VRAM_RT(cudaIpcOpenMemHandle, (void** out, cudaIpcMemHandle_t handle, unsigned flags), {
  static_assert(sizeof(CUipcMemHandle) == sizeof(cudaIpcMemHandle_t));
  return cuIpcOpenMemHandle(as_address(out), reinterpret_cast<const CUipcMemHandle&>(handle),
                            flags);
})
VRAM_RT(cudaIpcCloseMemHandle, (void* pointer),
        { return cuIpcCloseMemHandle(address_of(pointer)); })

}  // extern "C"
