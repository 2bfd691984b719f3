#pragma once

// vram's own pools behind the stream-ordered calls of a program, when its job asks for them: the
// program calls cuMemAllocAsync, and a pool::Segments of the device answers. Where memory is
// elastic, cuMemAlloc is answered by it, too.
//
// What such a pool takes from the card is charged page by page before it is taken, so the cap holds
// without the credit and the readings that a driver's pool needs. One pool serves all
// stream-ordered pools of a device that the program has, its own ones too; all that they are to it
// is where memory lies. Not served, and left to the driver: pools whose memory other processes may
// open, and whatever a capture allocates.
//
// Memory that idles goes back to the card by itself (caretaker.h).
//
// Threads: any.

#include "interpose/process.h"

namespace vram::interpose {

// When this process has joined its job.
void join_own_pools(Process& self);

inline bool has_own_pools() { return process().own_pools.load(std::memory_order_relaxed); }

// The pool of a device, opened when it is first asked for, in the context of the stream. Null: this
// process has none, or it could not be opened; then the driver's serves.
pool::Segments* own_pool(std::uint32_t ordinal, CUstream stream);
// The same, but null when it was not opened yet.
pool::Segments* opened_own_pool(std::uint32_t ordinal);

// The pool that answers cuMemAlloc in the current context, which is of this device. Null: the
// driver does: memory is not elastic, or the pool lives in another context.
pool::Segments* elastic_pool(std::uint32_t ordinal);

// As the pool's own function; a refusal is the job's as well, counted as one.
CUresult allocate_in(pool::Segments& own, const Device& device, std::uint64_t bytes,
                     CUdeviceptr* out, CUstream stream);

// By the caretaker: what idled long goes back, and all that is idle.
void decay_own_pools();
void trim_own_pools();

// After a synchronisation: what is idle above the program's release threshold goes back at once, as
// with a driver's pool.
void give_back_above(std::uint32_t ordinal, std::uint64_t threshold);

// The stream that a call means: `per_thread` for the functions whose default stream is the
// thread's own.
CUstream named_stream(CUstream stream);
CUstream named_stream_per_thread(CUstream stream);

// Whether the driver would take a call on this stream: a default stream is one of a current
// context.
bool has_context(CUstream stream);

// True: the block is of an own pool, and is free when the work on `stream` so far is done.
bool free_in_own_pool(CUdeviceptr address, CUstream stream);
// The same for a free that waits for everything, of an address in an own pool; an error is the one
// that the driver's free would answer with.
CUresult free_in_own_pool_now(CUdeviceptr address);
bool is_in_own_pool(CUdeviceptr address);
// The block that an address lies in, as the program asked for it. False: in none of ours.
struct OwnBlock {
  CUdeviceptr start;
  std::uint64_t bytes;
  std::uint64_t number;  // unlike every other's
  CUcontext context;
};
bool own_block_around(CUdeviceptr address, OwnBlock* block);

// Before a stream is destroyed.
void forget_stream_in_own_pools(CUstream stream);
// When a context of the device is gone; whether the pool lived in it is known here.
void close_own_pool(std::uint32_t ordinal, CUcontext context);

// Before `bytes` are reserved for something else: when they would not fit, the own pool gives back
// what it has idle. Not to be called from inside that pool.
void make_room(Device& device, std::uint64_t bytes);

// What a device's own pool has idle, bytes: taken from the card, and free for whatever asks next.
std::uint64_t own_idle(const Device& device);

// What the next allocation will be charged beside what it asks for, bytes.
std::uint64_t own_tables_due(const Device& device);

// What a device's own pool holds; false: there is none.
struct OwnHolding {
  std::uint64_t reserved, peak_reserved, in_use, peak_in_use;
};
bool own_holding(std::uint32_t ordinal, OwnHolding* holding);

}  // namespace vram::interpose
