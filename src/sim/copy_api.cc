// cuMemcpy…: every copy is brought into the form of the three-dimensional one.
#include <cuda.h>

#include "sim/copy.h"
#include "sim/stream_entry.h"
#include "sim/transfer.h"

namespace vram::sim {
namespace {

CUdeviceptr number(const void* pointer) { return reinterpret_cast<CUdeviceptr>(pointer); }

// One row. `kTo` and `kFrom` are memory types; D and H of the names.
constexpr CUmemorytype kHost = CU_MEMORYTYPE_HOST;
constexpr CUmemorytype kDevice = CU_MEMORYTYPE_DEVICE;
constexpr CUmemorytype kUnified = CU_MEMORYTYPE_UNIFIED;

CUdeviceptr wide(CUdeviceptr_v1 address) { return address; }
CUdeviceptr plain(CUdeviceptr address) { return address; }
CUdeviceptr plain(const void* address) { return number(address); }

template <CUmemorytype kTo, CUmemorytype kFrom, typename To, typename From>
CUresult row_sync(DefaultStream meaning, To to, From from, size_t bytes) {
  return copy_sync(meaning, linear_copy(kTo, plain(to), kFrom, plain(from), bytes));
}

template <CUmemorytype kTo, CUmemorytype kFrom, typename To, typename From>
CUresult row_async(DefaultStream meaning, To to, From from, size_t bytes, CUstream stream) {
  return copy_async(meaning, linear_copy(kTo, plain(to), kFrom, plain(from), bytes), stream);
}

CUresult peer_sync(DefaultStream meaning, CUdeviceptr to, CUcontext, CUdeviceptr from, CUcontext,
                   size_t bytes) {
  return row_sync<kDevice, kDevice>(meaning, to, from, bytes);
}

CUresult peer_async(DefaultStream meaning, CUdeviceptr to, CUcontext, CUdeviceptr from, CUcontext,
                    size_t bytes, CUstream stream) {
  return row_async<kDevice, kDevice>(meaning, to, from, bytes, stream);
}

// The 2D, 3D, peer and old descriptors have the same fields, some fewer.
template <typename Descriptor>
void take_sides(const Descriptor& in, CUDA_MEMCPY3D* out) {
  out->srcXInBytes = in.srcXInBytes;
  out->srcY = in.srcY;
  out->srcMemoryType = in.srcMemoryType;
  out->srcHost = in.srcHost;
  out->srcDevice = in.srcDevice;
  out->srcArray = in.srcArray;
  out->srcPitch = in.srcPitch;
  out->dstXInBytes = in.dstXInBytes;
  out->dstY = in.dstY;
  out->dstMemoryType = in.dstMemoryType;
  out->dstHost = in.dstHost;
  out->dstDevice = in.dstDevice;
  out->dstArray = in.dstArray;
  out->dstPitch = in.dstPitch;
  out->WidthInBytes = in.WidthInBytes;
  out->Height = in.Height;
}

template <typename Descriptor>
CUDA_MEMCPY3D from_2d(const Descriptor& in) {
  CUDA_MEMCPY3D out{};
  take_sides(in, &out);
  out.Depth = 1;
  return out;
}

template <typename Descriptor>
CUDA_MEMCPY3D from_3d(const Descriptor& in) {
  CUDA_MEMCPY3D out{};
  take_sides(in, &out);
  out.srcZ = in.srcZ;
  out.srcHeight = in.srcHeight;
  out.dstZ = in.dstZ;
  out.dstHeight = in.dstHeight;
  out.Depth = in.Depth;
  return out;
}

template <typename Descriptor>
CUresult flat_sync(DefaultStream meaning, const Descriptor* copy) {
  return copy == nullptr ? CUDA_ERROR_INVALID_VALUE : copy_sync(meaning, from_2d(*copy));
}

template <typename Descriptor>
CUresult flat_async(DefaultStream meaning, const Descriptor* copy, CUstream stream) {
  return copy == nullptr ? CUDA_ERROR_INVALID_VALUE : copy_async(meaning, from_2d(*copy), stream);
}

template <typename Descriptor>
CUresult solid_sync(DefaultStream meaning, const Descriptor* copy) {
  return copy == nullptr ? CUDA_ERROR_INVALID_VALUE : copy_sync(meaning, from_3d(*copy));
}

template <typename Descriptor>
CUresult solid_async(DefaultStream meaning, const Descriptor* copy, CUstream stream) {
  return copy == nullptr ? CUDA_ERROR_INVALID_VALUE : copy_async(meaning, from_3d(*copy), stream);
}

CUDA_MEMCPY3D array_copy(CUmemorytype to, CUmemorytype from, size_t bytes) {
  CUDA_MEMCPY3D copy{};
  copy.dstMemoryType = to;
  copy.srcMemoryType = from;
  copy.WidthInBytes = bytes;
  copy.Height = 1;
  copy.Depth = 1;
  return copy;
}

CUDA_MEMCPY3D copy_to_array(CUarray to, size_t offset, CUmemorytype from_type, CUdeviceptr from,
                            size_t bytes) {
  CUDA_MEMCPY3D copy = array_copy(CU_MEMORYTYPE_ARRAY, from_type, bytes);
  copy.dstArray = to;
  copy.dstXInBytes = offset;
  copy.srcDevice = from;
  copy.srcHost = reinterpret_cast<const void*>(from);
  return copy;
}

CUDA_MEMCPY3D copy_from_array(CUmemorytype to_type, CUdeviceptr to, CUarray from, size_t offset,
                              size_t bytes) {
  CUDA_MEMCPY3D copy = array_copy(to_type, CU_MEMORYTYPE_ARRAY, bytes);
  copy.srcArray = from;
  copy.srcXInBytes = offset;
  copy.dstDevice = to;
  copy.dstHost = reinterpret_cast<void*>(to);
  return copy;
}

template <CUmemorytype kFrom>
CUresult to_array(DefaultStream meaning, CUarray to, size_t offset, CUdeviceptr from,
                  size_t bytes) {
  return copy_sync(meaning, copy_to_array(to, offset, kFrom, from, bytes));
}

template <CUmemorytype kTo>
CUresult from_array(DefaultStream meaning, CUdeviceptr to, CUarray from, size_t offset,
                    size_t bytes) {
  return copy_sync(meaning, copy_from_array(kTo, to, from, offset, bytes));
}

CUresult to_array_async(DefaultStream meaning, CUarray to, size_t offset, const void* from,
                        size_t bytes, CUstream stream) {
  return copy_async(meaning, copy_to_array(to, offset, kHost, number(from), bytes), stream);
}

CUresult from_array_async(DefaultStream meaning, void* to, CUarray from, size_t offset,
                          size_t bytes, CUstream stream) {
  return copy_async(meaning, copy_from_array(kHost, number(to), from, offset, bytes), stream);
}

CUresult between_arrays(DefaultStream meaning, CUarray to, size_t to_offset, CUarray from,
                        size_t from_offset, size_t bytes) {
  CUDA_MEMCPY3D copy = copy_to_array(to, to_offset, CU_MEMORYTYPE_ARRAY, 0, bytes);
  copy.srcArray = from;
  copy.srcXInBytes = from_offset;
  return copy_sync(meaning, copy);
}

CUresult batch_async(DefaultStream meaning, CUdeviceptr* to, CUdeviceptr* from, size_t* bytes,
                     size_t count, size_t* failed, CUstream handle) {
  if (to == nullptr || from == nullptr || bytes == nullptr) return CUDA_ERROR_INVALID_VALUE;
  // Unlike the other copies, a batch is not taken on the legacy default stream.
  if (handle == CU_STREAM_LEGACY || (handle == nullptr && meaning == DefaultStream::kLegacy)) {
    return CUDA_ERROR_INVALID_VALUE;
  }
  for (size_t i = 0; i < count; ++i) {
    const CUresult result =
        row_async<kUnified, kUnified>(meaning, to[i], from[i], bytes[i], handle);
    if (result == CUDA_SUCCESS) continue;
    if (failed != nullptr) *failed = i;
    return result;
  }
  return CUDA_SUCCESS;
}

CUresult batch_async_v1(DefaultStream meaning, CUdeviceptr* to, CUdeviceptr* from, size_t* bytes,
                        size_t count, CUmemcpyAttributes*, size_t*, size_t, size_t* failed,
                        CUstream stream) {
  return batch_async(meaning, to, from, bytes, count, failed, stream);
}

CUresult batch_async_v2(DefaultStream meaning, CUdeviceptr* to, CUdeviceptr* from, size_t* bytes,
                        size_t count, CUmemcpyAttributes*, size_t*, size_t, CUstream stream) {
  return batch_async(meaning, to, from, bytes, count, nullptr, stream);
}

}  // namespace
}  // namespace vram::sim

using namespace vram::sim;

extern "C" {

// The present names, with both meanings of stream 0.
VRAM_SIM_BOTH(cuMemcpyHtoD_v2, _ptds, (row_sync<kDevice, kHost>),
              (CUdeviceptr to, const void* from, size_t bytes), (to, from, bytes))
VRAM_SIM_BOTH(cuMemcpyDtoH_v2, _ptds, (row_sync<kHost, kDevice>),
              (void* to, CUdeviceptr from, size_t bytes), (to, from, bytes))
VRAM_SIM_BOTH(cuMemcpyDtoD_v2, _ptds, (row_sync<kDevice, kDevice>),
              (CUdeviceptr to, CUdeviceptr from, size_t bytes), (to, from, bytes))
VRAM_SIM_BOTH(cuMemcpy, _ptds, (row_sync<kUnified, kUnified>),
              (CUdeviceptr to, CUdeviceptr from, size_t bytes), (to, from, bytes))
VRAM_SIM_BOTH(cuMemcpyPeer, _ptds, peer_sync,
              (CUdeviceptr to, CUcontext to_context, CUdeviceptr from, CUcontext from_context,
               size_t bytes),
              (to, to_context, from, from_context, bytes))
VRAM_SIM_BOTH(cuMemcpy2D_v2, _ptds, flat_sync, (const CUDA_MEMCPY2D* copy), (copy))
VRAM_SIM_BOTH(cuMemcpy2DUnaligned_v2, _ptds, flat_sync, (const CUDA_MEMCPY2D* copy), (copy))
VRAM_SIM_BOTH(cuMemcpy3D_v2, _ptds, solid_sync, (const CUDA_MEMCPY3D* copy), (copy))
VRAM_SIM_BOTH(cuMemcpy3DPeer, _ptds, solid_sync, (const CUDA_MEMCPY3D_PEER* copy), (copy))

VRAM_SIM_BOTH(cuMemcpyHtoDAsync_v2, _ptsz, (row_async<kDevice, kHost>),
              (CUdeviceptr to, const void* from, size_t bytes, CUstream stream),
              (to, from, bytes, stream))
VRAM_SIM_BOTH(cuMemcpyDtoHAsync_v2, _ptsz, (row_async<kHost, kDevice>),
              (void* to, CUdeviceptr from, size_t bytes, CUstream stream),
              (to, from, bytes, stream))
VRAM_SIM_BOTH(cuMemcpyDtoDAsync_v2, _ptsz, (row_async<kDevice, kDevice>),
              (CUdeviceptr to, CUdeviceptr from, size_t bytes, CUstream stream),
              (to, from, bytes, stream))
VRAM_SIM_BOTH(cuMemcpyAsync, _ptsz, (row_async<kUnified, kUnified>),
              (CUdeviceptr to, CUdeviceptr from, size_t bytes, CUstream stream),
              (to, from, bytes, stream))
VRAM_SIM_BOTH(cuMemcpyPeerAsync, _ptsz, peer_async,
              (CUdeviceptr to, CUcontext to_context, CUdeviceptr from, CUcontext from_context,
               size_t bytes, CUstream stream),
              (to, to_context, from, from_context, bytes, stream))
VRAM_SIM_BOTH(cuMemcpy2DAsync_v2, _ptsz, flat_async, (const CUDA_MEMCPY2D* copy, CUstream stream),
              (copy, stream))
VRAM_SIM_BOTH(cuMemcpy3DAsync_v2, _ptsz, solid_async, (const CUDA_MEMCPY3D* copy, CUstream stream),
              (copy, stream))
VRAM_SIM_BOTH(cuMemcpy3DPeerAsync, _ptsz, solid_async,
              (const CUDA_MEMCPY3D_PEER* copy, CUstream stream), (copy, stream))
VRAM_SIM_BOTH(cuMemcpyBatchAsync, _ptsz, batch_async_v1,
              (CUdeviceptr * to, CUdeviceptr* from, size_t* bytes, size_t count,
               CUmemcpyAttributes* attributes, size_t* indices, size_t attribute_count,
               size_t* failed, CUstream stream),
              (to, from, bytes, count, attributes, indices, attribute_count, failed, stream))
VRAM_SIM_BOTH(cuMemcpyBatchAsync_v2, _ptsz, batch_async_v2,
              (CUdeviceptr * to, CUdeviceptr* from, size_t* bytes, size_t count,
               CUmemcpyAttributes* attributes, size_t* indices, size_t attribute_count,
               CUstream stream),
              (to, from, bytes, count, attributes, indices, attribute_count, stream))

// One-dimensional arrays.
VRAM_SIM_BOTH(cuMemcpyDtoA_v2, _ptds, to_array<kDevice>,
              (CUarray to, size_t offset, CUdeviceptr from, size_t bytes),
              (to, offset, from, bytes))
VRAM_SIM_BOTH(cuMemcpyHtoA_v2, _ptds, to_array<kHost>,
              (CUarray to, size_t offset, const void* from, size_t bytes),
              (to, offset, number(from), bytes))
VRAM_SIM_BOTH(cuMemcpyAtoD_v2, _ptds, from_array<kDevice>,
              (CUdeviceptr to, CUarray from, size_t offset, size_t bytes),
              (to, from, offset, bytes))
VRAM_SIM_BOTH(cuMemcpyAtoH_v2, _ptds, from_array<kHost>,
              (void* to, CUarray from, size_t offset, size_t bytes),
              (number(to), from, offset, bytes))
VRAM_SIM_BOTH(cuMemcpyAtoA_v2, _ptds, between_arrays,
              (CUarray to, size_t to_offset, CUarray from, size_t from_offset, size_t bytes),
              (to, to_offset, from, from_offset, bytes))
VRAM_SIM_BOTH(cuMemcpyHtoAAsync_v2, _ptsz, to_array_async,
              (CUarray to, size_t offset, const void* from, size_t bytes, CUstream stream),
              (to, offset, from, bytes, stream))
VRAM_SIM_BOTH(cuMemcpyAtoHAsync_v2, _ptsz, from_array_async,
              (void* to, CUarray from, size_t offset, size_t bytes, CUstream stream),
              (to, from, offset, bytes, stream))

// The names of before CUDA 3.2, whose addresses have 32 bits.
#define VRAM_SIM_OLD(name, implementation, parameters, arguments)                \
  CUresult name parameters {                                                     \
    VRAM_SIM_ENTER();                                                            \
    return implementation(DefaultStream::kLegacy, VRAM_SIM_ARGUMENTS arguments); \
  }
VRAM_SIM_OLD(cuMemcpyHtoD, (row_sync<kDevice, kHost>),
             (CUdeviceptr_v1 to, const void* from, unsigned bytes), (wide(to), from, bytes))
VRAM_SIM_OLD(cuMemcpyDtoH, (row_sync<kHost, kDevice>),
             (void* to, CUdeviceptr_v1 from, unsigned bytes), (to, wide(from), bytes))
VRAM_SIM_OLD(cuMemcpyDtoD, (row_sync<kDevice, kDevice>),
             (CUdeviceptr_v1 to, CUdeviceptr_v1 from, unsigned bytes),
             (wide(to), wide(from), bytes))
VRAM_SIM_OLD(cuMemcpyHtoDAsync, (row_async<kDevice, kHost>),
             (CUdeviceptr_v1 to, const void* from, unsigned bytes, CUstream stream),
             (wide(to), from, bytes, stream))
VRAM_SIM_OLD(cuMemcpyDtoHAsync, (row_async<kHost, kDevice>),
             (void* to, CUdeviceptr_v1 from, unsigned bytes, CUstream stream),
             (to, wide(from), bytes, stream))
VRAM_SIM_OLD(cuMemcpyDtoDAsync, (row_async<kDevice, kDevice>),
             (CUdeviceptr_v1 to, CUdeviceptr_v1 from, unsigned bytes, CUstream stream),
             (wide(to), wide(from), bytes, stream))
VRAM_SIM_OLD(cuMemcpy2D, flat_sync, (const CUDA_MEMCPY2D_v1* copy), (copy))
VRAM_SIM_OLD(cuMemcpy2DUnaligned, flat_sync, (const CUDA_MEMCPY2D_v1* copy), (copy))
VRAM_SIM_OLD(cuMemcpy2DAsync, flat_async, (const CUDA_MEMCPY2D_v1* copy, CUstream stream),
             (copy, stream))
VRAM_SIM_OLD(cuMemcpy3D, solid_sync, (const CUDA_MEMCPY3D_v1* copy), (copy))
VRAM_SIM_OLD(cuMemcpy3DAsync, solid_async, (const CUDA_MEMCPY3D_v1* copy, CUstream stream),
             (copy, stream))
VRAM_SIM_OLD(cuMemcpyDtoA, to_array<kDevice>,
             (CUarray to, unsigned offset, CUdeviceptr_v1 from, unsigned bytes),
             (to, offset, from, bytes))
VRAM_SIM_OLD(cuMemcpyHtoA, to_array<kHost>,
             (CUarray to, unsigned offset, const void* from, unsigned bytes),
             (to, offset, number(from), bytes))
VRAM_SIM_OLD(cuMemcpyAtoD, from_array<kDevice>,
             (CUdeviceptr_v1 to, CUarray from, unsigned offset, unsigned bytes),
             (to, from, offset, bytes))
VRAM_SIM_OLD(cuMemcpyAtoH, from_array<kHost>,
             (void* to, CUarray from, unsigned offset, unsigned bytes),
             (number(to), from, offset, bytes))
VRAM_SIM_OLD(cuMemcpyAtoA, between_arrays,
             (CUarray to, unsigned to_offset, CUarray from, unsigned from_offset, unsigned bytes),
             (to, to_offset, from, from_offset, bytes))
VRAM_SIM_OLD(cuMemcpyHtoAAsync, to_array_async,
             (CUarray to, unsigned offset, const void* from, unsigned bytes, CUstream stream),
             (to, offset, from, bytes, stream))
VRAM_SIM_OLD(cuMemcpyAtoHAsync, from_array_async,
             (void* to, CUarray from, unsigned offset, unsigned bytes, CUstream stream),
             (to, from, offset, bytes, stream))
#undef VRAM_SIM_OLD

}  // extern "C"
