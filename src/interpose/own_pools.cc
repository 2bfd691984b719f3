#include "interpose/own_pools.h"

#include <sys/mman.h>

#include <new>

#include "base/hold.h"
#include "interpose/capture.h"
#include "interpose/caretaker.h"
#include "interpose/elastic.h"
#include "interpose/job.h"
#include "interpose/measure.h"
#include "pool/segments.h"
#include "pool/streams.h"
#include "residency/gate.h"

namespace vram::interpose {
namespace {

using base::Hold;
using driver::real;
using pool::Segments;

// Tables that the driver makes for the addresses of a pool, as much as was seen: a credit, charged
// while the pool holds memory, since no call names them.
constexpr std::uint64_t kTables = 8 * kMiB;
constexpr std::uint64_t kPage = 2 * kMiB;
// Above what a driver counts up to.
constexpr std::uint64_t kBlockNumbers = std::uint64_t{1} << 62;
// Stands in a device's slot when its pool could not be opened: not tried again at every call.
Segments* failed() { return reinterpret_cast<Segments*>(1); }

Segments* pool_of(const Device& device) {
  Segments* pool = device.own_pool.load(std::memory_order_acquire);
  return pool == failed() ? nullptr : pool;
}

CUresult create_for_pool(CUmemGenericAllocationHandle* handle, std::size_t size,
                         const CUmemAllocationProp* prop, unsigned long long flags) {
  return memory_create(handle, size, prop, flags, Owner::kPool);
}

pool::DriverCalls calls() {
  pool::DriverCalls calls{};
  calls.device_total = real.cuDeviceTotalMem_v2;
  calls.context_push = real.cuCtxPushCurrent_v2;
  calls.context_pop = real.cuCtxPopCurrent_v2;
  calls.host_alloc = real.cuMemHostAlloc;
  calls.host_free = real.cuMemFreeHost;
  calls.host_device_pointer = real.cuMemHostGetDevicePointer_v2;
  calls.address_reserve = real.cuMemAddressReserve;
  calls.address_free = real.cuMemAddressFree;
  calls.handle_create = real.cuMemCreate == nullptr ? nullptr : create_for_pool;
  calls.handle_release = memory_release;
  calls.map = real.cuMemMap == nullptr ? nullptr : memory_map;
  calls.unmap = memory_unmap;
  calls.set_access = real.cuMemSetAccess == nullptr ? nullptr : memory_set_access;
  calls.stream_write = real.cuStreamWriteValue64_v2;
  calls.stream_query = real.cuStreamQuery;
  calls.capture_mode = real.cuThreadExchangeStreamCaptureMode;
  calls.stream_is_capturing = real.cuStreamIsCapturing;
  calls.stream_synchronize = real.cuStreamSynchronize;
  calls.context_synchronize = real.cuCtxSynchronize;
  return calls;
}

bool driver_has_all(const pool::DriverCalls& c) {
  return c.context_push != nullptr && c.address_reserve != nullptr && c.handle_create != nullptr &&
         c.map != nullptr && c.set_access != nullptr && c.host_alloc != nullptr;
}

Device& device_of(void* owner) { return *static_cast<Device*>(owner); }

void count_part(const Device& device, std::int64_t bytes) {
  device.account.add_part(wire::Part::kPools, bytes);
}

bool charge_tables(Device& device) {
  if (device.own_tables.load(std::memory_order_relaxed)) return true;
  const bool charged = device.account.try_charge_credit(kTables);
  device.own_tables.store(charged, std::memory_order_relaxed);
  return charged;
}

void uncharge_tables_of_empty(Device& device) {
  const Segments* pool = pool_of(device);
  if (pool == nullptr || pool->reserved() != 0) return;
  if (device.own_tables.exchange(false)) device.account.uncharge_credit(kTables);
}

ledger::Account moving_account(void* owner) { return device_of(owner).account.moving(); }

// What the pool takes and gives back, as the ledger wants to hear it: under the pool's growth lock.
pool::Grant grant_of(Device& device) {
  pool::Grant grant;
  grant.owner = &device;
  grant.reserve = [](void* owner, std::uint64_t bytes) {
    measure_near_limit(device_of(owner), bytes);
    return charge_tables(device_of(owner)) && moving_account(owner).try_reserve(bytes);
  };
  grant.commit = [](void* owner, std::uint64_t bytes) {
    count_part(device_of(owner), static_cast<std::int64_t>(bytes));
    moving_account(owner).commit(bytes);
  };
  grant.roll_back = [](void* owner, std::uint64_t bytes) {
    moving_account(owner).roll_back(bytes);
    uncharge_tables_of_empty(device_of(owner));
  };
  grant.begin_release = [](void* owner, std::uint64_t bytes) {
    moving_account(owner).begin_release(bytes);
  };
  grant.end_release = [](void* owner, std::uint64_t bytes) {
    count_part(device_of(owner), -static_cast<std::int64_t>(bytes));
    moving_account(owner).end_release(bytes);
    uncharge_tables_of_empty(device_of(owner));
  };
  grant.keep = [](void* owner, std::uint64_t bytes) { moving_account(owner).keep(bytes); };
  return grant;
}

// Cards that the program's pool is open to by now.
void open_to_others(Segments& pool, CUmemoryPool of, std::uint32_t ordinal) {
  for (std::uint32_t d = 0; d < process().device_count && real.cuMemPoolGetAccess != nullptr; ++d) {
    CUmemLocation location{};
    location.type = CU_MEM_LOCATION_TYPE_DEVICE;
    location.id = static_cast<int>(d);
    CUmemAccess_flags flags = CU_MEM_ACCESS_FLAGS_PROT_NONE;
    if (d == ordinal || real.cuMemPoolGetAccess(&flags, of, &location) != CUDA_SUCCESS) continue;
    if (flags != CU_MEM_ACCESS_FLAGS_PROT_NONE) (void)pool.allow(static_cast<CUdevice>(d));
  }
}

// The context that a call on this stream works in.
CUcontext context_of(CUstream stream) {
  CUcontext context = nullptr;
  const bool special = stream == nullptr || stream == CU_STREAM_PER_THREAD;
  const CUresult found =
      special ? real.cuCtxGetCurrent(&context) : real.cuStreamGetCtx(stream, &context);
  return found == CUDA_SUCCESS ? context : nullptr;
}

Segments* open_pool(Device& device, std::uint32_t ordinal, CUstream stream) {
  const Hold hold(process().own_pools_lock);
  Segments* known = device.own_pool.load(std::memory_order_acquire);
  if (known != nullptr) return known == failed() ? nullptr : known;
  pool::SegmentsOptions options;
  options.device = static_cast<CUdevice>(ordinal);
  options.grant = grant_of(device);
  options.context = context_of(stream);
  if (options.context == nullptr) return nullptr;  // the driver will say so
  const pool::DriverCalls driver = calls();
  void* at =
      mmap(nullptr, sizeof(Segments), PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  Segments* opened = nullptr;
  if (at != MAP_FAILED && driver_has_all(driver)) {
    opened = new (at) Segments;
    if (opened->open(driver, options) != CUDA_SUCCESS) opened = nullptr;
  }
  device.own_pool.store(opened == nullptr ? failed() : opened, std::memory_order_release);
  if (opened == nullptr) {
    if (at != MAP_FAILED) munmap(at, sizeof(Segments));
    return nullptr;
  }
  if (const PoolSlot* slot = device.current_pool.load(std::memory_order_acquire); slot != nullptr) {
    open_to_others(*opened, reinterpret_cast<CUmemoryPool>(slot->handle.load()), ordinal);
  }
  start_caretaker();
  return opened;
}

Segments* holder_of(CUdeviceptr address) {
  Process& self = process();
  if (!has_own_pools()) return nullptr;
  for (std::uint32_t d = 0; d < self.device_count; ++d) {
    Segments* pool = pool_of(self.device[d]);
    if (pool != nullptr && pool->contains(address)) return pool;
  }
  return nullptr;
}

}  // namespace

void join_own_pools(Process& self) {
  self.own_pools.store(job()->header.pools != wire::Pools::kDriver, std::memory_order_relaxed);
}

pool::Segments* own_pool(std::uint32_t ordinal, CUstream stream) {
  if (!has_own_pools()) return nullptr;
  Device& device = process().device[ordinal];
  Segments* pool = device.own_pool.load(std::memory_order_acquire);
  if (pool == failed()) return nullptr;
  return pool != nullptr ? pool : open_pool(device, ordinal, stream);
}

pool::Segments* opened_own_pool(std::uint32_t ordinal) {
  return has_own_pools() ? pool_of(process().device[ordinal]) : nullptr;
}

void give_back_above(std::uint32_t ordinal, std::uint64_t threshold) {
  Segments* pool = opened_own_pool(ordinal);
  if (pool == nullptr || pool->reserved() <= threshold) return;
  const residency::TryThrough through;
  if (through) (void)pool->give_back_idle(threshold);
}

void decay_own_pools() {
  Process& self = process();
  for (std::uint32_t d = 0; d < self.device_count; ++d) {
    if (Segments* pool = pool_of(self.device[d]); pool != nullptr) (void)pool->decay();
  }
}

void trim_own_pools() {
  Process& self = process();
  for (std::uint32_t d = 0; d < self.device_count; ++d) {
    if (Segments* pool = pool_of(self.device[d]); pool != nullptr) (void)pool->trim(0);
  }
}

// The pool asks for pages without waiting: it has other ways. Before the program is refused, the
// ledger is asked once more in the way that waits for what others have not settled, and counts the
// denial.
CUresult allocate_in(Segments& own, const Device& device, std::uint64_t bytes, CUdeviceptr* out,
                     CUstream stream) {
  const RelaxedCapture relaxed;
  const CUresult result = own.allocate(out, bytes, stream);
  const std::uint64_t pages = round_up(bytes, kPage);
  const ledger::Account account = device.account.moving();
  if (result != CUDA_ERROR_OUT_OF_MEMORY || !account.reserve(pages)) return result;
  account.roll_back(pages);
  return own.allocate(out, bytes, stream);
}

Segments* elastic_pool(std::uint32_t ordinal) {
  if (!is_elastic()) return nullptr;
  Segments* pool = own_pool(ordinal, nullptr);
  CUcontext current = nullptr;
  const bool lives_here = pool != nullptr && real.cuCtxGetCurrent(&current) == CUDA_SUCCESS &&
                          pool->context() == current;
  return lives_here ? pool : nullptr;
}

bool own_block_around(CUdeviceptr address, OwnBlock* block) {
  Process& self = process();
  for (std::uint32_t d = 0; d < self.device_count; ++d) {
    Segments* pool = pool_of(self.device[d]);
    Segments::BlockAsked asked{};
    if (pool == nullptr || !pool->contains(address)) continue;
    if (!pool->block_around(address, &asked)) return false;
    *block = {asked.start, asked.bytes, kBlockNumbers | std::uint64_t{d} << 32 | asked.number,
              pool->context()};
    return true;
  }
  return false;
}

CUstream named_stream(CUstream stream) { return stream == CU_STREAM_LEGACY ? nullptr : stream; }

CUstream named_stream_per_thread(CUstream stream) {
  return stream == nullptr ? CU_STREAM_PER_THREAD : named_stream(stream);
}

bool has_context(CUstream stream) {
  if (stream != nullptr && stream != CU_STREAM_LEGACY && stream != CU_STREAM_PER_THREAD)
    return true;
  CUcontext context = nullptr;
  return real.cuCtxGetCurrent(&context) == CUDA_SUCCESS && context != nullptr;
}

bool is_in_own_pool(CUdeviceptr address) { return holder_of(address) != nullptr; }

bool free_in_own_pool(CUdeviceptr address, CUstream stream) {
  Segments* pool = holder_of(address);
  return pool != nullptr && pool->free(address, stream);
}

CUresult free_in_own_pool_now(CUdeviceptr address) {
  Segments* pool = holder_of(address);
  if (pool == nullptr || pool->bytes_at(address) == 0) return CUDA_ERROR_INVALID_VALUE;
  const CUresult waited = real.cuCtxSynchronize();
  // As the driver's own free, this is no call for a thread whose captures forbid waiting.
  if (waited == CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED ||
      waited == CUDA_ERROR_STREAM_CAPTURE_INVALIDATED) {
    return waited;
  }
  const bool idle = waited == CUDA_SUCCESS;
  return pool->free(address, idle ? pool::synchronized_stream() : nullptr)
             ? CUDA_SUCCESS
             : CUDA_ERROR_INVALID_VALUE;
}

void forget_stream_in_own_pools(CUstream stream) {
  Process& self = process();
  if (!has_own_pools()) return;
  for (std::uint32_t d = 0; d < self.device_count; ++d) {
    if (Segments* pool = pool_of(self.device[d]); pool != nullptr) pool->forget_stream(stream);
  }
}

void close_own_pool(std::uint32_t ordinal, CUcontext context) {
  Process& self = process();
  if (!has_own_pools()) return;
  const CaretakerAtRest at_rest;
  const Hold hold(self.own_pools_lock);
  Device& device = self.device[ordinal];
  Segments* pool = pool_of(device);
  if (pool == nullptr || pool->context() != context) return;
  device.own_pool.store(nullptr, std::memory_order_release);
  pool->context_gone();
  pool->~Segments();
  if (device.own_tables.exchange(false)) device.account.uncharge_credit(kTables);
  munmap(pool, sizeof(Segments));
}

void make_room(Device& device, std::uint64_t bytes) {
  Segments* pool = pool_of(device);
  if (pool == nullptr) return;
  const std::uint64_t left = device.account.moving().left();
  if (bytes <= left) return;
  const std::uint64_t missing = bytes - left;
  const std::uint64_t reserved = pool->reserved();
  const residency::TryThrough through;
  if (through) (void)pool->trim(reserved > missing ? reserved - missing : 0);
}

std::uint64_t own_idle(const Device& device) {
  Segments* pool = pool_of(device);
  if (pool == nullptr) return 0;
  const pool::SegmentsInfo info = pool->info();
  return info.reserved > info.in_use ? info.reserved - info.in_use : 0;
}

std::uint64_t own_tables_due(const Device& device) {
  return is_elastic() && !device.own_tables.load(std::memory_order_relaxed) ? kTables : 0;
}

bool own_holding(std::uint32_t ordinal, OwnHolding* holding) {
  Segments* pool = pool_of(process().device[ordinal]);
  if (pool == nullptr) return false;
  const pool::SegmentsInfo info = pool->info();
  *holding = {info.reserved, info.peak_reserved, info.in_use, info.peak_in_use};
  return true;
}

}  // namespace vram::interpose
