/* Allocators for PyTorch and CuPy: functions of libvram.so that they find by name. Memory comes
 * from one pool a device (VRAM_POOL_SEGMENTS), made when it is first needed.
 *
 * The limit of each pool is the lower one of two variables, read when the pool is made:
 *   VRAM_POOL_LIMIT          a size or a share of the card: 4GiB, 40%
 *   PER_PROCESS_GPU_MEMORY   MiB, a whole number
 * A value that means nothing refuses every allocation; vram_last_error() says so.
 *
 * Threads: any, at any time. Pools live until the process ends. */
#ifndef VRAM_FRAMEWORKS_H
#define VRAM_FRAMEWORKS_H

#include <stddef.h>
#include <sys/types.h>

#include "vram/vram.h"

#ifdef __cplusplus
extern "C" {
#endif

/* The device's pool, not to be destroyed: to trim it, change its limit, read it. */
VRAM_API vram_status vram_framework_pool(int device, vram_pool** pool);

/* ---- PyTorch ---- */

/* For torch.cuda.memory.CUDAPluggableAllocator in place of PyTorch's own. PyTorch takes whatever
 * this returns for memory, null too; so a refusal is thrown (a std::bad_alloc that says why), which
 * PyTorch turns into a Python exception (MemoryError). Only C++ may call it. */
VRAM_API void* vram_torch_alloc(ssize_t size, int device, void* stream);
/* For torch.cuda.MemPool, under PyTorch's own allocator: null when refused, which becomes
 * torch.OutOfMemoryError. */
VRAM_API void* vram_torch_pool_alloc(ssize_t size, int device, void* stream);
/* For both. What is no live block is left alone. */
VRAM_API void vram_torch_free(void* address, ssize_t size, int device, void* stream);

/* For the setters of the same name of allocator.allocator(): set_record_stream_fn (a tensor is used
 * on another stream), set_reset_fn (torch.cuda.empty_cache: idle memory goes back),
 * set_memory_fraction_fn (a share of the card's total, above 0 and at most 1; else nothing). */
VRAM_API void vram_torch_record_stream(void* address, void* stream);
VRAM_API void vram_torch_reset(void);
VRAM_API void vram_torch_memory_fraction(double fraction, int device);

/* ---- CuPy ---- */

/* For cupy.cuda.CFunctionAllocator; `stream` is its param, the stream that the arrays are for. Null
 * when refused. CuPy takes a null for memory: PythonFunctionAllocator around this can raise. */
VRAM_API void* vram_cupy_malloc(void* stream, size_t size, int device);
VRAM_API void vram_cupy_free(void* stream, void* address, int device);

#ifdef __cplusplus
}
#endif

#endif
