// Pools and their blocks in other processes.
//
// Model. The descriptor of an exported pool is the exporter's memory file; a block's description
// says where in it the block lies. The importer maps those bytes and pays nothing: the pieces
// belong to the exporter's pool, and CUDA asks the importer to free a block before the exporter.
//
// Threads: any.
#pragma once

#include <cuda.h>

namespace vram::sim {

// A descriptor of the caller's own. CUDA_ERROR_INVALID_VALUE for a pool made without export.
[[nodiscard]] CUresult export_pool(CUmemoryPool pool, int* descriptor);
// The descriptor stays the caller's. Nothing can be allocated from the result.
[[nodiscard]] CUresult import_pool(int descriptor, CUmemoryPool* out);
// CUDA_ERROR_INVALID_VALUE when the handle is no imported pool.
[[nodiscard]] CUresult forget_imported_pool(CUmemoryPool pool);

[[nodiscard]] CUresult export_block(CUdeviceptr address, CUmemPoolPtrExportData* out);
[[nodiscard]] CUresult import_block(CUmemoryPool pool, const CUmemPoolPtrExportData& data,
                                    CUdeviceptr* out);
// CUDA_ERROR_INVALID_VALUE unless import_block() gave the address.
[[nodiscard]] CUresult free_imported_block(CUdeviceptr base);

}  // namespace vram::sim
