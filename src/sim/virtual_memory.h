// Physical memory, reserved addresses and the mappings between them (cuMemCreate and its kin).
//
// Model. Physical memory is charged to the card in its properties from creation until neither a
// handle nor a mapping is left. A handle's value is never used again, and retaining revives it
// while a mapping lives. Memory that may be exported has an anonymous file of its own, other memory
// a part of the process's file. The file's name tells an importer the card, its number the object
// of the machine.
//
// Threads: one lock for the whole family; every function takes it.
#pragma once

#include <cuda.h>

#include <cstddef>
#include <cstdint>
#include <vector>

namespace vram::sim {

[[nodiscard]] CUresult create_physical(size_t bytes, const CUmemAllocationProp& properties,
                                       CUmemGenericAllocationHandle* out);
// `*given_back` is what nobody in the process holds any more.
[[nodiscard]] CUresult release_physical(CUmemGenericAllocationHandle handle, size_t* given_back);
[[nodiscard]] CUresult retain_physical(CUdeviceptr address, CUmemGenericAllocationHandle* out);
[[nodiscard]] CUresult properties_of(CUmemGenericAllocationHandle handle, CUmemAllocationProp* out);
// A descriptor of the caller's own.
[[nodiscard]] CUresult export_physical(CUmemGenericAllocationHandle handle, int* descriptor);
// The descriptor stays the caller's.
[[nodiscard]] CUresult import_physical(int descriptor, CUmemGenericAllocationHandle* out);

[[nodiscard]] CUresult reserve_addresses(size_t bytes, size_t alignment, CUdeviceptr at,
                                         CUdeviceptr* out);
[[nodiscard]] CUresult free_addresses(CUdeviceptr base, size_t bytes);
[[nodiscard]] CUresult map_physical(CUdeviceptr at, size_t bytes, size_t offset,
                                    CUmemGenericAllocationHandle handle);
// Whole mappings only, without a gap; else CUDA_ERROR_INVALID_VALUE and nothing is done.
[[nodiscard]] CUresult unmap_range(CUdeviceptr base, size_t bytes);
[[nodiscard]] CUresult set_access(CUdeviceptr base, size_t bytes, const CUmemAccessDesc& access);
[[nodiscard]] CUresult access_of(CUdeviceptr address, const CUmemLocation& location,
                                 unsigned long long* flags);

// The objects of the machine that a fully mapped range consists of, made such if they are none yet.
// CUDA_ERROR_INVALID_VALUE when it has gaps or is of several cards, CUDA_ERROR_NOT_SUPPORTED when
// it is of the host.
[[nodiscard]] CUresult share_range(CUdeviceptr base, size_t bytes, std::vector<uint64_t>* out);

// What pointer attributes tell about a mapped address; false when it is none.
[[nodiscard]] bool handle_types_at(CUdeviceptr address, CUmemAllocationHandleType* out);
// The reservation around an address, mapped or not; false when there is none.
[[nodiscard]] bool find_reservation(CUdeviceptr address, CUdeviceptr* base, size_t* bytes);

}  // namespace vram::sim
