// Stream-ordered allocation: cuMemAllocAsync and the pools behind it.
//
// What such a call takes from the card is what its pool grows by, in whole 32 MiB, and nobody knows
// beforehand whether it grows at all. So a pool is charged by what it reserves, read from the
// driver after the call (27 ns), and growth is covered before the call:
//
//   - by the pool's *credit*, 32 MiB charged once and kept while the pool holds memory: enough for
//     every request that can grow the pool by one piece;
//   - by a reservation of the largest possible growth, for larger requests and for threads that
//     find the credit lent.
//
// At the cap, memory that the pool keeps without need is given back first (trim, then synchronise
// and trim). A request under the credit that grew the pool over the cap is undone. So the cap holds
// at every moment, for 32 MiB a pool.
//
// Nothing here synchronises unless the alternative is to refuse. While a stream is captured nothing
// is allocated, and nothing is asked that a capture does not survive.

#include "interpose/pools.h"

#include "interpose/capture.h"
#include "interpose/change.h"
#include "interpose/export.h"
#include "interpose/measure.h"
#include "interpose/own_pools.h"
#include "interpose/room.h"
#include "interpose/trace.h"
#include "pool/segments.h"

namespace vram::interpose {
namespace {

using driver::real;
using ledger::Account;

constexpr std::uint64_t kPiece = 32 * kMiB;
constexpr std::uint64_t kAdding = 1;  // no handle has this value

// A slot's value: device (6 bits), what is charged in units of 2 MiB.
constexpr std::uint64_t kChargeUnit = 2 * kMiB;
constexpr unsigned kChargedShift = 6;
constexpr std::uint64_t kDeviceMask = (std::uint64_t{1} << kChargedShift) - 1;

constexpr std::uint32_t kNoCredit = 0;
constexpr std::uint32_t kCreditHeld = 1;
constexpr std::uint32_t kCreditLent = 2;

struct Pool {
  CUmemoryPool handle;
  PoolSlot* entry;
  Device* device;
};

std::uint64_t charged_of(std::uint64_t value) { return (value >> kChargedShift) * kChargeUnit; }

std::uint64_t with_charge(std::uint64_t value, std::uint64_t bytes) {
  return (value & kDeviceMask) | bytes / kChargeUnit << kChargedShift;
}

PoolSlot* slot_of(CUmemoryPool handle) {
  Process& self = process();
  const auto wanted = reinterpret_cast<std::uint64_t>(handle);
  const std::uint32_t used = self.pools_used.load(std::memory_order_acquire);
  for (std::uint32_t i = 0; i < used; ++i) {
    if (self.pool[i].handle.load(std::memory_order_acquire) == wanted) return &self.pool[i];
  }
  return nullptr;
}

bool find_pool(CUmemoryPool handle, Pool* pool) {
  PoolSlot* slot = joined() ? slot_of(handle) : nullptr;
  if (slot == nullptr) return false;
  const std::uint64_t device = slot->value.load(std::memory_order_relaxed) & kDeviceMask;
  *pool = {handle, slot, &process().device[device]};
  return true;
}

void refresh_current_pools() {
  if (!joined()) return;
  for (std::uint32_t d = 0; d < process().device_count; ++d) refresh_current_pool(d);
}

bool attribute(CUmemoryPool pool, CUmemPool_attribute which, std::uint64_t* bytes) {
  const RelaxedCapture relaxed;
  cuuint64_t value = 0;
  if (real.cuMemPoolGetAttribute(pool, which, &value) != CUDA_SUCCESS) return false;
  *bytes = value;
  return true;
}

// Makes the pool's charge equal to what it reserves. `cover` bytes are reserved and pending for
// growth; what is not needed of them is rolled back. Returns the bytes of growth left uncovered.
//
// The charge is read before the attribute: a lower attribute is then a pool that shrank, and not
// one that has not grown yet. Growth that another call made is paid by whoever sees it first, and
// that call keeps its own cover until it has looked, too.
std::uint64_t settle(const Pool& pool, std::uint64_t cover) {
  const Account& account = pool.device->account;
  for (;;) {
    std::uint64_t value = pool.entry->value.load(std::memory_order_acquire);
    const std::uint64_t charged = charged_of(value);
    std::uint64_t reserved = 0;
    if (!attribute(pool.handle, CU_MEMPOOL_ATTR_RESERVED_MEM_CURRENT, &reserved)) {
      reserved = charged;
    }
    reserved = round_up(reserved, kChargeUnit);
    const std::uint64_t growth = reserved > charged ? reserved - charged : 0;
    const std::uint64_t paid = growth < cover ? growth : cover;
    const std::uint64_t next = reserved > charged ? charged + paid : reserved;
    if (next == charged) {
      if (cover > 0) account.roll_back(cover);
      return growth;
    }
    const Change change(account);
    if (!pool.entry->value.compare_exchange_strong(value, with_charge(value, next))) continue;
    account.add_part(wire::Part::kPools,
                     static_cast<std::int64_t>(next) - static_cast<std::int64_t>(charged));
    if (next < charged) account.uncharge(charged - next);
    if (paid > 0) account.commit(paid);
    if (cover > paid) account.roll_back(cover - paid);
    return growth - paid;
  }
}

bool swap_credit(const Pool& pool, std::uint32_t from, std::uint32_t to) {
  std::atomic<std::uint32_t>& credit = pool.entry->credit;
  return credit.load(std::memory_order_relaxed) == from && credit.compare_exchange_strong(from, to);
}

// By whom it was lent to.
void return_credit(const Pool& pool, std::uint32_t to) {
  pool.entry->credit.store(to, std::memory_order_release);
}

// After settle() left growth uncovered: pays it from the ledger. False: it does not fit.
bool pay(const Pool& pool, std::uint64_t uncovered) {
  while (uncovered > 0) {
    if (!pool.device->account.try_reserve(uncovered)) return false;
    uncovered = settle(pool, uncovered);
  }
  return true;
}

void return_credit_of_empty(const Pool& pool) {
  const std::uint64_t value = pool.entry->value.load(std::memory_order_acquire);
  if (charged_of(value) != 0 || !swap_credit(pool, kCreditHeld, kNoCredit)) return;
  pool.device->account.uncharge_credit(kPiece);
}

void get_credit(const Pool& pool) {
  if (!swap_credit(pool, kNoCredit, kCreditLent)) return;
  const bool charged = pool.device->account.try_charge_credit(kPiece);
  return_credit(pool, charged ? kCreditHeld : kNoCredit);
}

// Everything the pool keeps without need goes back to the card.
void shed(const Pool& pool) {
  const RelaxedCapture relaxed;
  (void)real.cuMemPoolTrimTo(pool.handle, 0);
  (void)settle(pool, 0);
}

template <typename Call>
CUresult allocate_reserved(const Pool& pool, std::uint64_t cover, CUdeviceptr* out, Call call) {
  const Change change(pool.device->account);
  const CUresult result = call(out);
  // Growth beyond what any request was seen to cause is charged all the same.
  const std::uint64_t uncovered = settle(pool, cover);
  if (uncovered > 0 && !pay(pool, uncovered)) {
    pool.device->account.charge(uncovered);
    std::uint64_t value = pool.entry->value.load(std::memory_order_acquire);
    while (!pool.entry->value.compare_exchange_weak(
        value, with_charge(value, charged_of(value) + uncovered))) {
    }
    pool.device->account.add_part(wire::Part::kPools, static_cast<std::int64_t>(uncovered));
  }
  return result;
}

struct Stream {
  CUstream handle;
  decltype(&::cuMemFreeAsync) free;
  decltype(&::cuStreamSynchronize) synchronize;
  std::uint64_t (*id)(CUstream);  // in a recording
  CUstream named;                 // which it is, whatever call was made
};

void synchronize(const Stream& stream) {
  const RelaxedCapture relaxed;
  (void)stream.synchronize(stream.handle);
}

// Under the credit, which the caller has lent. True: done, with *result the answer.
template <typename Call>
bool allocate_on_credit(const Pool& pool, const Stream& stream, CUdeviceptr* out, Call call,
                        CUresult* result) {
  const Change change(pool.device->account);
  *result = call(out);
  const std::uint64_t uncovered = settle(pool, 0);
  if (uncovered == 0 || pay(pool, uncovered)) return true;
  if (*result == CUDA_SUCCESS) (void)stream.free(*out, stream.handle);
  synchronize(stream);
  shed(pool);
  return false;
}

template <typename Call>
bool try_on_credit(const Pool& pool, const Stream& stream, CUdeviceptr* out, Call call,
                   CUresult* result) {
  if (!swap_credit(pool, kCreditHeld, kCreditLent)) return false;
  const bool done = allocate_on_credit(pool, stream, out, call, result);
  return_credit(pool, kCreditHeld);
  return done;
}

template <typename Call>
CUresult allocate(const Pool& pool, const Stream& stream, std::uint64_t bytes, CUdeviceptr* out,
                  Call call) {
  const Account& account = pool.device->account;
  const std::uint64_t growth = round_up(bytes, kPiece);
  CUresult result = CUDA_ERROR_OUT_OF_MEMORY;
  get_credit(pool);
  const bool one_piece = growth == kPiece;
  measure_near_limit(*pool.device, growth);
  make_room(*pool.device, growth);
  if (one_piece && try_on_credit(pool, stream, out, call, &result)) return result;
  if (account.try_reserve(growth)) return allocate_reserved(pool, growth, out, call);
  shed(pool);
  if (account.try_reserve(growth)) return allocate_reserved(pool, growth, out, call);
  // What is freed on the stream but not finished there goes back after a synchronisation only.
  synchronize(stream);
  shed(pool);
  if (one_piece && try_on_credit(pool, stream, out, call, &result)) return result;
  if (!account.reserve(growth)) return CUDA_ERROR_OUT_OF_MEMORY;
  return allocate_reserved(pool, growth, out, call);
}

CUresult destroy(const Pool& pool) {
  const Change change(pool.device->account);
  shed(pool);
  // Unknown, and without charge and credit, before the driver can use the handle again.
  pool.entry->handle.store(kAdding, std::memory_order_release);
  const std::uint64_t value = pool.entry->value.fetch_and(kDeviceMask, std::memory_order_acq_rel);
  const std::uint32_t credit = pool.entry->credit.exchange(kNoCredit, std::memory_order_acq_rel);
  const CUresult result = real.cuMemPoolDestroy(pool.handle);
  if (result != CUDA_SUCCESS) {
    pool.entry->value.store(value, std::memory_order_release);
    return_credit(pool, credit);
    pool.entry->handle.store(reinterpret_cast<std::uint64_t>(pool.handle),
                             std::memory_order_release);
    return result;
  }
  if (credit != kNoCredit) pool.device->account.uncharge_credit(kPiece);
  // What is still in use goes when its last block is freed, and no call tells; see measure.h.
  orphan(*pool.device, wire::Part::kPools, charged_of(value));
  pool.entry->handle.store(0, std::memory_order_release);
  return result;
}

bool device_of_stream(CUstream stream, CUdevice* ordinal) {
  if (process().device_count == 1) {
    *ordinal = 0;
    return true;
  }
  const auto special = reinterpret_cast<std::uintptr_t>(stream);
  CUcontext context = nullptr;
  Here here{};
  if (special <= 2) {  // none, legacy, per-thread: the current context's
    if (!locate(&here)) return false;
  } else if (real.cuStreamGetCtx(stream, &context) != CUDA_SUCCESS ||
             !locate_context(context, &here)) {
    return false;
  }
  *ordinal = static_cast<CUdevice>(here.ordinal);
  return true;
}

bool pool_of_stream(CUstream stream, Pool* pool) {
  CUdevice ordinal = 0;
  if (!joined() || !device_of_stream(stream, &ordinal)) return false;
  Device& device = process().device[ordinal];
  PoolSlot* slot = device.current_pool.load(std::memory_order_acquire);
  if (slot == nullptr) return false;
  const std::uint64_t handle = slot->handle.load(std::memory_order_acquire);
  *pool = {reinterpret_cast<CUmemoryPool>(handle), slot, &device};
  return handle > kAdding;
}

pool::Segments* own_pool_for(const Pool& pool) {
  if (!has_own_pools() || pool.entry->exported.load(std::memory_order_relaxed)) return nullptr;
  return opened_own_pool(static_cast<std::uint32_t>(pool.device - process().device));
}

// After a synchronisation. Which pool of the program a block came from is not kept: the most that
// any of the device's may keep holds for all.
void settle_own_pools() {
  Process& self = process();
  if (!has_own_pools()) return;
  const std::uint32_t used = self.pools_used.load(std::memory_order_acquire);
  for (std::uint32_t d = 0; d < self.device_count; ++d) {
    if (opened_own_pool(d) == nullptr) continue;
    std::uint64_t threshold = 0;
    for (std::uint32_t i = 0; i < used; ++i) {
      const PoolSlot& slot = self.pool[i];
      if (slot.handle.load(std::memory_order_acquire) <= kAdding ||
          (slot.value.load(std::memory_order_relaxed) & kDeviceMask) != d) {
        continue;
      }
      const std::uint64_t kept = slot.threshold.load(std::memory_order_relaxed);
      if (kept > threshold) threshold = kept;
    }
    give_back_above(d, threshold);
  }
}

pool::Segments* serving_pool(const Pool& pool, CUstream stream) {
  if (!has_own_pools() || pool.entry->exported.load(std::memory_order_relaxed) ||
      !has_context(stream)) {
    return nullptr;
  }
  return own_pool(static_cast<std::uint32_t>(pool.device - process().device), stream);
}

template <typename Find, typename Call>
CUresult serve(CUdeviceptr* out, std::uint64_t bytes, const Stream& stream, bool capturing, Way way,
               Find find, Call call) {
  Pool pool{};
  if (out == nullptr || bytes == 0) return call(out);
  const bool governed = !capturing && find(&pool);
  pool::Segments* own = governed ? serving_pool(pool, stream.named) : nullptr;
  CUresult result = CUDA_SUCCESS;
  if (own != nullptr) {
    result = with_room(*pool.device, bytes,
                       [&] { return allocate_in(*own, *pool.device, bytes, out, stream.named); });
  } else if (governed) {
    result = with_room_to_stay(*pool.device, bytes,
                               [&] { return allocate(pool, stream, bytes, out, call); });
  } else {
    const residency::Through through;
    result = call(out);
  }
  const Taking asked{
      capturing ? Way::kCaptured : way, bytes, {stream.handle, stream.id}, pool.device};
  return noted(result, asked, out);
}

template <typename Call>
CUresult synchronized(Call call) {
  const CUresult result = call();
  reconcile_pools();
  return result;
}

// What was freed before the marks were made is idle after it. `own`: null for none.
template <typename Mark, typename Call>
CUresult synchronized_with(pool::Segments* own, Mark mark, Call call) {
  if (own == nullptr) return synchronized(call);
  const pool::Segments::Marks marks = mark(*own);
  return synchronized([&] {
    const CUresult result = call();
    if (result == CUDA_SUCCESS) own->synchronized(marks);
    return result;
  });
}

template <typename Call>
CUresult synchronized_with_stream(CUstream stream, Call call) {
  CUdevice ordinal = 0;
  const bool known = has_own_pools() && joined() && device_of_stream(stream, &ordinal);
  pool::Segments* own = known ? opened_own_pool(static_cast<std::uint32_t>(ordinal)) : nullptr;
  return synchronized_with(
      own, [&](pool::Segments& pool) { return pool.mark(named_stream(stream)); }, call);
}

// `here` is the context that is synchronised with; null: none with pools of ours.
template <typename Call>
CUresult synchronized_with_all(const Here* here, Call call) {
  pool::Segments* own = here == nullptr ? nullptr : opened_own_pool(here->ordinal);
  return synchronized_with(
      own, [](pool::Segments& pool) { return pool.mark_all(); }, call);
}

Stream plain(CUstream stream) {
  return {stream, real.cuMemFreeAsync, real.cuStreamSynchronize, stream_id, named_stream(stream)};
}
Stream per_thread(CUstream stream) {
  return {stream, real.cuMemFreeAsync_ptsz, real.cuStreamSynchronize_ptsz, stream_id_per_thread,
          named_stream_per_thread(stream)};
}

}  // namespace

bool add_pool(CUmemoryPool handle, std::uint32_t ordinal) {
  Process& self = process();
  for (std::uint32_t i = 0; i < kMaxPools; ++i) {
    PoolSlot& slot = self.pool[i];
    std::uint64_t free = 0;
    if (!slot.handle.compare_exchange_strong(free, kAdding)) continue;
    slot.value.store(ordinal, std::memory_order_relaxed);
    slot.exported.store(false, std::memory_order_relaxed);
    slot.threshold.store(0, std::memory_order_relaxed);
    slot.handle.store(reinterpret_cast<std::uint64_t>(handle), std::memory_order_release);
    std::uint32_t used = self.pools_used.load(std::memory_order_relaxed);
    while (used <= i && !self.pools_used.compare_exchange_weak(used, i + 1)) {
    }
    return true;
  }
  return false;
}

void refresh_current_pool(std::uint32_t ordinal) {
  Device& device = process().device[ordinal];
  CUmemoryPool handle = nullptr;
  PoolSlot* slot = nullptr;
  if (real.cuDeviceGetMemPool != nullptr &&
      real.cuDeviceGetMemPool(&handle, static_cast<CUdevice>(ordinal)) == CUDA_SUCCESS) {
    slot = slot_of(handle);
  }
  device.current_pool.store(slot, std::memory_order_release);
}

void settle_pools() {
  Process& self = process();
  const std::uint32_t used = self.pools_used.load(std::memory_order_acquire);
  for (std::uint32_t i = 0; i < used; ++i) {
    PoolSlot& slot = self.pool[i];
    const std::uint64_t handle = slot.handle.load(std::memory_order_acquire);
    const std::uint64_t value = slot.value.load(std::memory_order_acquire);
    const bool empty =
        charged_of(value) == 0 && slot.credit.load(std::memory_order_acquire) == kNoCredit;
    if (handle == 0 || handle == kAdding || empty) continue;
    const Pool pool{reinterpret_cast<CUmemoryPool>(handle), &slot,
                    &self.device[value & kDeviceMask]};
    (void)settle(pool, 0);
    return_credit_of_empty(pool);
  }
}

void reconcile_pools() {
  if (!joined()) return;
  settle_own_pools();
  settle_pools();
  remeasure_orphans();
}

}  // namespace vram::interpose

using namespace vram::interpose;
using vram::driver::real;

VRAM_EXPORT CUresult cuMemAllocAsync(CUdeviceptr* dptr, size_t bytesize, CUstream stream) {
  VRAM_ENTER(cuMemAllocAsync, dptr, bytesize, stream);
  return serve(
      dptr, bytesize, plain(stream), is_capturing(real.cuStreamIsCapturing, stream), Way::kAsync,
      [&](Pool* pool) { return pool_of_stream(stream, pool); },
      [&](CUdeviceptr* out) { return real.cuMemAllocAsync(out, bytesize, stream); });
}

VRAM_EXPORT CUresult cuMemAllocAsync_ptsz(CUdeviceptr* dptr, size_t bytesize, CUstream stream) {
  VRAM_ENTER(cuMemAllocAsync_ptsz, dptr, bytesize, stream);
  return serve(
      dptr, bytesize, per_thread(stream), is_capturing(real.cuStreamIsCapturing_ptsz, stream),
      Way::kAsync, [&](Pool* pool) { return pool_of_stream(stream, pool); },
      [&](CUdeviceptr* out) { return real.cuMemAllocAsync_ptsz(out, bytesize, stream); });
}

VRAM_EXPORT CUresult cuMemAllocFromPoolAsync(CUdeviceptr* dptr, size_t bytesize,
                                             CUmemoryPool handle, CUstream stream) {
  VRAM_ENTER(cuMemAllocFromPoolAsync, dptr, bytesize, handle, stream);
  return serve(
      dptr, bytesize, plain(stream), is_capturing(real.cuStreamIsCapturing, stream), Way::kPool,
      [&](Pool* pool) { return find_pool(handle, pool); },
      [&](CUdeviceptr* out) {
        return real.cuMemAllocFromPoolAsync(out, bytesize, handle, stream);
      });
}

VRAM_EXPORT CUresult cuMemAllocFromPoolAsync_ptsz(CUdeviceptr* dptr, size_t bytesize,
                                                  CUmemoryPool handle, CUstream stream) {
  VRAM_ENTER(cuMemAllocFromPoolAsync_ptsz, dptr, bytesize, handle, stream);
  return serve(
      dptr, bytesize, per_thread(stream), is_capturing(real.cuStreamIsCapturing_ptsz, stream),
      Way::kPool, [&](Pool* pool) { return find_pool(handle, pool); },
      [&](CUdeviceptr* out) {
        return real.cuMemAllocFromPoolAsync_ptsz(out, bytesize, handle, stream);
      });
}

VRAM_EXPORT CUresult cuMemPoolCreate(CUmemoryPool* pool, const CUmemPoolProps* props) {
  VRAM_ENTER(cuMemPoolCreate, pool, props);
  const CUresult result = real.cuMemPoolCreate(pool, props);
  if (result != CUDA_SUCCESS || props->location.type != CU_MEM_LOCATION_TYPE_DEVICE ||
      device_at(props->location.id) == nullptr ||
      add_pool(*pool, static_cast<std::uint32_t>(props->location.id))) {
    if (result == CUDA_SUCCESS && props->handleTypes != CU_MEM_HANDLE_TYPE_NONE) {
      if (PoolSlot* slot = slot_of(*pool); slot != nullptr) slot->exported.store(true);
    }
    return result;
  }
  real.cuMemPoolDestroy(*pool);
  return CUDA_ERROR_OUT_OF_MEMORY;
}

VRAM_EXPORT CUresult cuMemPoolDestroy(CUmemoryPool handle) {
  VRAM_PASS_BACK(cuMemPoolDestroy, handle);
  Pool pool{};
  if (!find_pool(handle, &pool)) return real.cuMemPoolDestroy(handle);
  const CUresult result = destroy(pool);
  if (result == CUDA_SUCCESS) {
    refresh_current_pools();
    remeasure_orphans();
  }
  return result;
}

VRAM_EXPORT CUresult cuDeviceSetMemPool(CUdevice ordinal, CUmemoryPool pool) {
  VRAM_ENTER(cuDeviceSetMemPool, ordinal, pool);
  const CUresult result = real.cuDeviceSetMemPool(ordinal, pool);
  refresh_current_pools();
  return result;
}

VRAM_EXPORT CUresult cuMemSetMemPool(CUmemLocation* location, CUmemAllocationType type,
                                     CUmemoryPool pool) {
  VRAM_ENTER(cuMemSetMemPool, location, type, pool);
  const CUresult result = real.cuMemSetMemPool(location, type, pool);
  refresh_current_pools();
  return result;
}

VRAM_EXPORT CUresult cuMemPoolTrimTo(CUmemoryPool pool, size_t keep) {
  VRAM_PASS_BACK(cuMemPoolTrimTo, pool, keep);
  const CUresult result = real.cuMemPoolTrimTo(pool, keep);
  reconcile_pools();
  Pool known{};
  if (result == CUDA_SUCCESS && find_pool(pool, &known)) {
    if (vram::pool::Segments* own = own_pool_for(known); own != nullptr) {
      const RelaxedCapture relaxed;
      (void)own->trim(keep);
    }
  }
  return result;
}

VRAM_EXPORT CUresult cuMemPoolSetAccess(CUmemoryPool pool, const CUmemAccessDesc* map,
                                        size_t count) {
  VRAM_PASS(cuMemPoolSetAccess, pool, map, count);
  const CUresult result = real.cuMemPoolSetAccess(pool, map, count);
  Pool known{};
  if (result != CUDA_SUCCESS || !find_pool(pool, &known)) return result;
  vram::pool::Segments* own = own_pool_for(known);
  for (size_t i = 0; own != nullptr && i < count; ++i) {
    const CUmemLocation& location = map[i].location;
    if (location.type != CU_MEM_LOCATION_TYPE_DEVICE || map[i].flags == 0) continue;
    (void)own->allow(static_cast<CUdevice>(location.id));
  }
  return result;
}

// What a program reads of a pool includes what vram's serves in its place.
VRAM_EXPORT CUresult cuMemPoolGetAttribute(CUmemoryPool pool, CUmemPool_attribute which,
                                           void* value) {
  VRAM_ENTER(cuMemPoolGetAttribute, pool, which, value);
  const CUresult result = real.cuMemPoolGetAttribute(pool, which, value);
  Pool known{};
  OwnHolding own{};
  if (result != CUDA_SUCCESS || !has_own_pools() || !find_pool(pool, &known) ||
      own_pool_for(known) == nullptr ||
      !own_holding(static_cast<std::uint32_t>(known.device - process().device), &own)) {
    return result;
  }
  auto* bytes = static_cast<cuuint64_t*>(value);
  if (which == CU_MEMPOOL_ATTR_RESERVED_MEM_CURRENT) *bytes += own.reserved;
  if (which == CU_MEMPOOL_ATTR_RESERVED_MEM_HIGH) *bytes += own.peak_reserved;
  if (which == CU_MEMPOOL_ATTR_USED_MEM_CURRENT) *bytes += own.in_use;
  if (which == CU_MEMPOOL_ATTR_USED_MEM_HIGH) *bytes += own.peak_in_use;
  return result;
}

VRAM_EXPORT CUresult cuMemPoolSetAttribute(CUmemoryPool pool, CUmemPool_attribute which,
                                           void* value) {
  VRAM_ENTER(cuMemPoolSetAttribute, pool, which, value);
  const CUresult result = real.cuMemPoolSetAttribute(pool, which, value);
  const bool resets =
      which == CU_MEMPOOL_ATTR_RESERVED_MEM_HIGH || which == CU_MEMPOOL_ATTR_USED_MEM_HIGH;
  Pool known{};
  if (result != CUDA_SUCCESS || !find_pool(pool, &known)) return result;
  if (which == CU_MEMPOOL_ATTR_RELEASE_THRESHOLD) {
    known.entry->threshold.store(*static_cast<cuuint64_t*>(value), std::memory_order_relaxed);
  }
  if (!resets) return result;
  if (vram::pool::Segments* own = own_pool_for(known); own != nullptr) own->reset_peaks();
  return result;
}

// A synchronisation is where a driver gives back what pools keep above their threshold.
VRAM_EXPORT CUresult cuStreamSynchronize(CUstream stream) {
  VRAM_ENTER(cuStreamSynchronize, stream);
  return synchronized_with_stream(stream, [&] { return real.cuStreamSynchronize(stream); });
}

VRAM_EXPORT CUresult cuStreamSynchronize_ptsz(CUstream stream) {
  VRAM_ENTER(cuStreamSynchronize_ptsz, stream);
  return synchronized_with_stream(named_stream_per_thread(stream),
                                  [&] { return real.cuStreamSynchronize_ptsz(stream); });
}

VRAM_EXPORT CUresult cuCtxSynchronize() {
  VRAM_ENTER(cuCtxSynchronize);
  Here here{};
  const bool known = has_own_pools() && locate(&here);
  return synchronized_with_all(known ? &here : nullptr, [] { return real.cuCtxSynchronize(); });
}

VRAM_EXPORT CUresult cuCtxSynchronize_v2(CUcontext context) {
  VRAM_ENTER(cuCtxSynchronize_v2, context);
  Here here{};
  const bool known = has_own_pools() && context != nullptr && locate_context(context, &here);
  return synchronized_with_all(known ? &here : nullptr,
                               [&] { return real.cuCtxSynchronize_v2(context); });
}

VRAM_EXPORT CUresult cuEventSynchronize(CUevent event) {
  VRAM_ENTER(cuEventSynchronize, event);
  return synchronized([&] { return real.cuEventSynchronize(event); });
}
