/* Pools of GPU memory, for C and whatever calls C. The C++ form of the same is vram/pool.h.
 *
 * Units: sizes are bytes, times milliseconds. Devices are CUDA's numbers, after
 * CUDA_VISIBLE_DEVICES. A stream is a CUstream or cudaStream_t as void*; null is the legacy default
 * stream. cuda.h is not needed.
 *
 * Errors: functions that can fail return a vram_status; what they would have filled stays as it
 * was. vram_last_error() then says what stood in the way and what to do. Nothing is printed, and no
 * failure ends the program.
 *
 * Threads: every function may be called by any thread, also during calls of others, except
 * vram_pool_destroy, which must be the pool's last call. A forked child must not use the pools of
 * its parent.
 *
 * Growth: structures begin with their size, so that a program and a library of different versions
 * understand each other. */
#ifndef VRAM_VRAM_H
#define VRAM_VRAM_H

#include <stddef.h>
#include <stdint.h>

#include "vram/api.h"

#define VRAM_VERSION_MAJOR 0
#define VRAM_VERSION_MINOR 1
#define VRAM_VERSION_PATCH 0
#define VRAM_VERSION (VRAM_VERSION_MAJOR * 10000 + VRAM_VERSION_MINOR * 100 + VRAM_VERSION_PATCH)

#ifdef __cplusplus
extern "C" {
#endif

typedef enum vram_status {
  VRAM_OK = 0,
  VRAM_OUT_OF_MEMORY = 1,    /* the limit or the driver refuses; the program can go on */
  VRAM_INVALID_ARGUMENT = 2, /* a null pointer, a size or an option that means nothing */
  VRAM_NOT_A_BLOCK = 3,      /* no live block of the pool begins at the address */
  VRAM_NO_DEVICE = 4,        /* no driver, or no such device */
  VRAM_NOT_SUPPORTED = 5,    /* by this driver or card */
  VRAM_DRIVER_ERROR = 6,     /* anything else that the driver answered */
  VRAM_INTERNAL_ERROR = 7    /* no host memory for the pool's books, for example */
} vram_status;

/* The library's version, as VRAM_VERSION. */
VRAM_API uint32_t vram_version(void);

/* A few words for a status, never null. */
VRAM_API const char* vram_status_text(vram_status status);

/* One or more lines about the calling thread's last failure, "" when it had none. Valid until the
 * thread's next failure. */
VRAM_API const char* vram_last_error(void);

/* ---- Pools ---- */

typedef struct vram_pool vram_pool;

typedef enum vram_pool_kind {
  /* The default: gives idle memory back by itself, holds little more than is live. */
  VRAM_POOL_SEGMENTS = 0,
  /* TensorFlow's allocator: growing regions, or all at once. For one stream; more are safe, but
   * slower. */
  VRAM_POOL_BFC = 1,
  /* The driver's own stream-ordered pool, with a cap. */
  VRAM_POOL_DRIVER_ASYNC = 2,
  /* Pinned host memory. */
  VRAM_POOL_HOST = 3
} vram_pool_kind;

/* Flags; a flag of another kind of pool is VRAM_INVALID_ARGUMENT. */
#define VRAM_POOL_GREEDY 1u       /* BFC: the whole limit at the first allocation */
#define VRAM_POOL_KEEP_REGIONS 2u /* BFC: free regions do not go back to make room */
#define VRAM_POOL_MANAGED 4u      /* BFC: managed memory; the limit may exceed the card */

#define VRAM_NO_LIMIT UINT64_MAX

typedef struct vram_pool_options {
  size_t size; /* sizeof(vram_pool_options) */
  int32_t kind;
  int32_t device;
  uint64_t limit; /* bytes that the pool may hold from the driver, above 0 */
  uint32_t flags;
  /* BFC: how long a request waits for frees before it fails; TensorFlow waits 10000. */
  uint32_t wait_ms;
  /* SEGMENTS: memory idle for one to two times this long goes back by itself; 0: only by trim. */
  uint32_t decay_ms;
  uint32_t reserved; /* 0 */
  /* BFC: the share of the limit that a block may waste before it is split; 0: 128 MiB at most. */
  double fragmentation_fraction;
} vram_pool_options;

#define VRAM_POOL_OPTIONS_INIT \
  { sizeof(vram_pool_options), VRAM_POOL_SEGMENTS, 0, VRAM_NO_LIMIT, 0, 0, 1000, 0, 0 }

/* Creates a pool; takes no device memory yet but the context's. *pool is set on VRAM_OK only. */
VRAM_API vram_status vram_pool_create(const vram_pool_options* options, vram_pool** pool);

/* Gives everything back, live blocks too: all work on them must be done. Null: nothing. */
VRAM_API void vram_pool_destroy(vram_pool* pool);

/* A block of at least `bytes`, aligned to 256, ready for work on `stream`: device memory, of
 * VRAM_POOL_HOST host memory. 0 bytes: null. */
VRAM_API vram_status vram_pool_allocate(vram_pool* pool, uint64_t bytes, void* stream,
                                        void** address);

/* The block's last use is what is on `stream` now; the call does not wait for it. Null address:
 * nothing. */
VRAM_API vram_status vram_pool_free(vram_pool* pool, void* address, void* stream);

/* The block is also used by work that is already on `stream`. To be called before it is freed. */
VRAM_API vram_status vram_pool_record_use(vram_pool* pool, void* address, void* stream);

/* `stream` is about to be destroyed. Without it, a later stream of the same handle may be taken for
 * this one. */
VRAM_API vram_status vram_pool_forget_stream(vram_pool* pool, void* stream);

/* Captures of `stream` into a graph; pools of segments only, VRAM_NOT_SUPPORTED of others. Begin
 * before the capture begins, end when it has ended, release when the graph is gone and its launches
 * are done. What is allocated in between is the graph's, which writes it at every launch: whoever
 * frees it, and when, it is not handed out again outside of the capture before the release.
 * `*capture` names it. VRAM_INVALID_ARGUMENT: no such capture, or not in this order. */
VRAM_API vram_status vram_pool_begin_capture(vram_pool* pool, void* stream, uint32_t* capture);
VRAM_API vram_status vram_pool_end_capture(vram_pool* pool, uint32_t capture);
VRAM_API vram_status vram_pool_release_capture(vram_pool* pool, uint32_t capture);

/* Gives idle memory back until the pool holds at most `keep` bytes; waits up to about 100 ms for
 * work under way. `given_back`: how many bytes went, may be null. */
VRAM_API vram_status vram_pool_trim(vram_pool* pool, uint64_t keep, uint64_t* given_back);

/* A limit below what is held gives idle memory back; what is left counts against the next
 * requests. 0 is VRAM_INVALID_ARGUMENT. */
VRAM_API vram_status vram_pool_set_limit(vram_pool* pool, uint64_t bytes);

/* What a pool cannot tell is 0. */
typedef struct vram_pool_info {
  size_t size; /* sizeof(vram_pool_info), set by the caller */
  uint64_t limit;
  uint64_t in_use; /* live blocks, as they were rounded */
  uint64_t peak_in_use;
  uint64_t reserved; /* held from the driver */
  uint64_t peak_reserved;
  uint64_t largest_free; /* the largest request that needs nothing from the driver */
  uint64_t live_blocks;
  uint64_t allocations; /* ever */
  uint64_t failures;    /* ever */
  uint64_t largest_request;
  double fragmentation; /* (free - largest free) / free, 0 when nothing is free */
} vram_pool_info;

#define VRAM_POOL_INFO_INIT \
  { sizeof(vram_pool_info), 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0 }

VRAM_API vram_status vram_pool_get_info(vram_pool* pool, vram_pool_info* info);

/* Peaks become the present values. */
VRAM_API vram_status vram_pool_reset_peaks(vram_pool* pool);

/* What the pool holds, for a person; with `wanted` above 0 also what would have made so many bytes
 * fit. Writes at most `size` bytes of it, the last one 0, and returns the length of the whole text
 * without that 0; so a size of 0 (`text` may be null) asks how much room it needs. 0: failed. */
VRAM_API size_t vram_pool_report(vram_pool* pool, uint64_t wanted, char* text, size_t size);

#ifdef __cplusplus
}
#endif

#endif
