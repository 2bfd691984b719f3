// Memory of other interfaces (Vulkan, say): made by them, imported by a program.
//
// Model. Each piece has a file of its own, named after its card; its descriptor is what the other
// interface exports. The piece is an object of the machine: a process holds it once, for whatever
// it has of it (the memory itself, imports), and the oldest holder is charged. A buffer mapped onto
// an import is an address more, which costs nothing and is freed by itself; its bytes are all
// users' bytes.
//
// Threads: one lock for the whole family; every function takes it.
#pragma once

#include <cuda.h>

#include <cstddef>
#include <cstdint>

#include "sim/context.h"

namespace vram::sim {

// The other interface's side: takes memory of this process and gives a descriptor of the caller's
// own; lets the memory go, which imports keep. CUDA_ERROR_INVALID_VALUE when it is gone.
[[nodiscard]] CUresult make_foreign(int device, size_t bytes, uint64_t* memory, int* descriptor);
[[nodiscard]] CUresult free_foreign(uint64_t memory);

// The descriptor becomes the driver's. CUDA_ERROR_INVALID_HANDLE when it is no such memory,
// CUDA_ERROR_INVALID_VALUE when the memory is smaller than `bytes` or of another card.
[[nodiscard]] CUresult import_external(Context& context, int descriptor, uint64_t bytes,
                                       CUexternalMemory* out);
// CUDA_ERROR_INVALID_HANDLE when there is no such import.
[[nodiscard]] CUresult map_external(CUexternalMemory handle, uint64_t offset, uint64_t bytes,
                                    CUdeviceptr* out);
// Buffers stay, to be freed by the program.
[[nodiscard]] CUresult destroy_external(CUexternalMemory handle);
// CUDA_ERROR_INVALID_VALUE unless map_external() gave the address.
[[nodiscard]] CUresult free_external_buffer(CUdeviceptr base);

}  // namespace vram::sim
