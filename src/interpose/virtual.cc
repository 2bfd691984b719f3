// The virtual-memory calls. Physical memory counts from cuMemCreate until its handle *and* all its
// mappings are gone, on the device its properties name.

#include "interpose/charged.h"
#include "interpose/elastic.h"
#include "interpose/export.h"
#include "interpose/measure.h"
#include "interpose/pins.h"
#include "interpose/room.h"
#include "interpose/trace.h"

namespace vram::interpose {
namespace {

using driver::real;
using ledger::Account;

// A handle in its table value: holds (24 bits: references of the program and mappings), device (6),
// size in pieces of 64 KiB (34), the finest granularity of device memory.
constexpr std::uint64_t kUnit = 64 << 10;
constexpr std::uint64_t kHoldMask = (1u << 24) - 1;

std::uint64_t bytes_of(std::uint64_t value) { return (value >> 30) * kUnit; }
std::uint32_t device_of(std::uint64_t value) {
  return static_cast<std::uint32_t>(value >> 24 & 63);
}
std::uint64_t make(std::uint64_t bytes, std::uint32_t device) {
  return bytes / kUnit << 30 | std::uint64_t{device} << 24 | 1;
}

// One hold more. False: not a handle we charge.
bool hold(std::uint64_t handle) {
  base::LevelTable::Entry* entry = process().handles.find(handle);
  if (entry == nullptr) return false;
  entry->value.fetch_add(1, std::memory_order_acq_rel);
  return true;
}

// What giving up a hold needs to be undone, or finished.
struct Dropped {
  std::uint64_t handle;
  std::uint64_t value;
  bool known;
  bool last;                 // the entry is out of the table: the driver may use the handle again
  wire::TraceRecord* freed;  // of a recording; null: none, or another one has it
};

Dropped drop(std::uint64_t handle) {
  base::LevelTable::Entry* entry = process().handles.find(handle);
  if (entry == nullptr) return {handle, 0, false, false, nullptr};
  const std::uint64_t value = entry->value.fetch_sub(1, std::memory_order_acq_rel);
  if ((value & kHoldMask) != 1) return {handle, value, true, false, nullptr};
  std::uint64_t taken = 0;
  const bool last = process().handles.take(handle, &taken);
  if (last) process().device[device_of(value)].account.moving().begin_release(bytes_of(value));
  wire::TraceRecord* const freed =
      last && is_traced() ? note_freed(KeySpace::kHandle, handle, nullptr) : nullptr;
  return {handle, value, true, last, freed};
}

void undo(const Dropped& dropped) {
  if (!dropped.known) return;
  if (!dropped.last) {
    (void)hold(dropped.handle);
    return;
  }
  (void)process().handles.insert(dropped.handle, dropped.value);
  const Device& device = process().device[device_of(dropped.value)];
  device.account.moving().keep(bytes_of(dropped.value));
  if (dropped.freed != nullptr) return take_back(dropped.freed);
  const Taking again{Way::kCreate, bytes_of(dropped.value), {}, &device};
  if (is_traced()) note_taken(again, dropped.handle);
}

// The last hold is gone. In a process that shares memory the charge goes by measuring.
void finish(const Dropped& dropped) {
  if (!dropped.last) return;
  Device& device = process().device[device_of(dropped.value)];
  const Account account = device.account.moving();
  const std::uint64_t bytes = bytes_of(dropped.value);
  if (shares_memory() && measurable(device)) {
    account.settle_down(bytes);
    orphan(device, wire::Part::kVirtual, bytes);
    account.keep(bytes);
    return;
  }
  account.add_part(wire::Part::kVirtual, -static_cast<std::int64_t>(bytes));
  account.end_release(bytes);
}

Device* charged_device(const CUmemAllocationProp* prop) {
  if (prop == nullptr || prop->location.type != CU_MEM_LOCATION_TYPE_DEVICE) return nullptr;
  return device_at(prop->location.id);
}

// More than the card has: the driver says whether that is all that is wrong with the request.
CUresult impossible(std::size_t size, const CUmemAllocationProp* prop, unsigned long long flags) {
  CUmemGenericAllocationHandle made = 0;
  const CUresult result = real.cuMemCreate(&made, size, prop, flags);
  if (result != CUDA_SUCCESS) return result;
  real.cuMemRelease(made);
  return CUDA_ERROR_OUT_OF_MEMORY;
}

// A mapping in its table value: bytes (48 bits), device of the handle (6), and whether giving it up
// gave up the handle's last hold. Mappings of handles that are not charged are noted too, under
// handle 0, so that a range of both kinds can be walked.
constexpr std::uint64_t kLast = std::uint64_t{1} << 63;
constexpr std::uint64_t kBytesMask = (std::uint64_t{1} << 48) - 1;

struct Mapping {
  base::LevelTable::Entry* entry;
  std::uint64_t start;
  std::uint64_t handle;
};

template <typename Visit>
void for_mappings(std::uint64_t address, std::uint64_t size, Visit visit) {
  Process& self = process();
  for (std::uint64_t at = address; at < address + size;) {
    base::LevelTable::Entry* mapping = self.mappings.find(at);
    const base::LevelTable::Entry* mapped = self.mapped.find(at);
    if (mapping == nullptr || mapped == nullptr) return;
    const std::uint64_t bytes = mapping->value.load(std::memory_order_relaxed) & kBytesMask;
    visit(Mapping{mapping, at, mapped->value.load(std::memory_order_relaxed)});
    at += bytes;
  }
}

bool note_mapping(std::uint64_t address, std::uint64_t size, std::uint64_t handle,
                  std::uint32_t device) {
  Process& self = process();
  if (!self.mapped.insert(address, handle)) return false;
  if (self.mappings.insert(address, size | std::uint64_t{device} << 48)) return true;
  std::uint64_t value = 0;
  self.mapped.take(address, &value);
  return false;
}

void drop_mapping(const Mapping& mapping) {
  if (drop(mapping.handle).last) {
    mapping.entry->value.fetch_or(kLast, std::memory_order_relaxed);
  }
}

Dropped dropped_by(const Mapping& mapping) {
  const std::uint64_t value = mapping.entry->value.load(std::memory_order_relaxed);
  const auto device = static_cast<std::uint32_t>(value >> 48 & 63);
  return {mapping.handle, make(value & kBytesMask, device), mapping.handle != 0,
          (value & kLast) != 0, nullptr};
}

void undo_mapping(const Mapping& mapping) {
  undo(dropped_by(mapping));
  mapping.entry->value.fetch_and(~kLast, std::memory_order_relaxed);
}

void finish_mapping(const Mapping& mapping) {
  std::uint64_t value = 0;
  finish(dropped_by(mapping));
  process().mappings.take(mapping.start, &value);
  process().mapped.take(mapping.start, &value);
}

// Who is no card may reach the memory where nobody could stop it.
bool opens_to_more_than_cards(const CUmemAccessDesc* access, std::size_t count) {
  for (std::size_t i = 0; access != nullptr && i < count; ++i) {
    if (access[i].location.type != CU_MEM_LOCATION_TYPE_DEVICE) return true;
  }
  return false;
}

// An array is not moved, nor what backs its tiles.
template <typename Call>
CUresult map_tiles(CUarrayMapInfo* list, unsigned count, Call call) {
  if (!is_elastic() || list == nullptr) {
    const residency::Through through;
    return call(list, count);
  }
  return pinning([&] {
    for (unsigned i = 0; i < count; ++i) {
      CUarrayMapInfo tile = list[i];
      if (tile.memHandleType == CU_MEM_HANDLE_TYPE_GENERIC) {
        tile.memHandle.memHandle = shared_handle(tile.memHandle.memHandle);
      }
      const CUresult result = call(&tile, 1);
      if (result != CUDA_SUCCESS) return result;
    }
    return CUDA_SUCCESS;
  });
}

}  // namespace
}  // namespace vram::interpose

using namespace vram::interpose;
using vram::driver::real;
namespace base = vram::base;

VRAM_EXPORT CUresult cuMemCreate(CUmemGenericAllocationHandle* handle, size_t size,
                                 const CUmemAllocationProp* prop, unsigned long long flags) {
  VRAM_ENTER(cuMemCreate, handle, size, prop, flags);
  Device* device = charged_device(prop);
  if (device == nullptr || handle == nullptr || size == 0) {
    return real.cuMemCreate(handle, size, prop, flags);
  }
  const auto ordinal = static_cast<std::uint32_t>(prop->location.id);
  const std::uint64_t bytes = round_up(size, kUnit);
  const Taking asked{Way::kCreate, size, {}, device};
  if (device->capacity != 0 && bytes > device->capacity) {
    return noted(impossible(size, prop, flags), asked, handle);
  }
  CUmemGenericAllocationHandle made = 0;
  const CUresult result = with_room(*device, bytes, [&] {
    return take_charged(
        *device, device->account.moving(), bytes, vram::wire::Part::kVirtual,
        [&] { return memory_create(&made, size, prop, flags, Owner::kProgram); },
        [&] {
          if (process().handles.insert(made, make(bytes, ordinal))) return true;
          (void)memory_release(made);
          return false;
        });
  });
  if (result == CUDA_SUCCESS) *handle = made;
  return noted(result, asked, handle);
}

VRAM_EXPORT CUresult cuMemRelease(CUmemGenericAllocationHandle handle) {
  VRAM_PASS_BACK(cuMemRelease, handle);
  const Dropped dropped = drop(handle);
  const auto call = [&] { return memory_release(handle); };
  // One that was imported is not charged.
  const CUresult result = dropped.known ? call() : freed(KeySpace::kHandle, handle, nullptr, call);
  if (result == CUDA_SUCCESS) {
    finish(dropped);
    publish_pins();
    if (shares_memory()) measure_shared();
  } else {
    undo(dropped);
  }
  return result;
}

VRAM_EXPORT CUresult cuMemRetainAllocationHandle(CUmemGenericAllocationHandle* handle,
                                                 void* address) {
  VRAM_PASS(cuMemRetainAllocationHandle, handle, address);
  if (handle == nullptr) return real.cuMemRetainAllocationHandle(handle, address);
  vram::residency::ElasticMemory* elastic = elastic_memory();
  const bool ours =
      elastic != nullptr && elastic->retain(handle, reinterpret_cast<CUdeviceptr>(address));
  const CUresult result = ours ? CUDA_SUCCESS : real.cuMemRetainAllocationHandle(handle, address);
  if (result == CUDA_SUCCESS) (void)hold(*handle);
  return result;
}

VRAM_EXPORT CUresult cuMemMap(CUdeviceptr address, size_t size, size_t offset,
                              CUmemGenericAllocationHandle handle, unsigned long long flags) {
  VRAM_PASS(cuMemMap, address, size, offset, handle, flags);
  const base::LevelTable::Entry* entry = process().handles.find(handle);
  const std::uint32_t device =
      entry == nullptr ? 0 : device_of(entry->value.load(std::memory_order_relaxed));
  const bool charged = hold(handle);
  CUresult result = memory_map(address, size, offset, handle, flags);
  if (result == CUDA_SUCCESS && note_mapping(address, size, charged ? handle : 0, device)) {
    return result;
  }
  if (result == CUDA_SUCCESS) {
    (void)memory_unmap(address, size);
    result = CUDA_ERROR_OUT_OF_MEMORY;
  }
  finish(drop(handle));
  return result;
}

// Holds are given up before the call, since the driver may use a handle again at once; a driver
// that refuses has unmapped nothing, and they are taken back. The range stays the caller's
// throughout.
VRAM_EXPORT CUresult cuMemUnmap(CUdeviceptr address, size_t size) {
  VRAM_PASS_BACK(cuMemUnmap, address, size);
  for_mappings(address, size, drop_mapping);
  const CUresult result = memory_unmap(address, size);
  for_mappings(address, size, result == CUDA_SUCCESS ? finish_mapping : undo_mapping);
  if (result == CUDA_SUCCESS) publish_pins();
  if (result == CUDA_SUCCESS && shares_memory()) measure_shared();
  return result;
}

VRAM_EXPORT CUresult cuMemSetAccess(CUdeviceptr address, size_t size, const CUmemAccessDesc* access,
                                    size_t count) {
  VRAM_ENTER(cuMemSetAccess, address, size, access, count);
  const auto call = [&] { return memory_set_access(address, size, access, count); };
  if (opens_to_more_than_cards(access, count)) return pinning(call);
  const vram::residency::Through through;
  return call();
}

// While memory is parked nothing is mapped there, and the driver would give the addresses away.
VRAM_EXPORT CUresult cuMemAddressFree(CUdeviceptr address, size_t size) {
  VRAM_ENTER(cuMemAddressFree, address, size);
  vram::residency::ElasticMemory* elastic = elastic_memory();
  if (elastic != nullptr && elastic->is_mapped_in(address, size)) return CUDA_ERROR_INVALID_VALUE;
  return real.cuMemAddressFree(address, size);
}

VRAM_EXPORT CUresult cuMemGetAllocationPropertiesFromHandle(CUmemAllocationProp* prop,
                                                            CUmemGenericAllocationHandle handle) {
  VRAM_PASS(cuMemGetAllocationPropertiesFromHandle, prop, handle);
  return real.cuMemGetAllocationPropertiesFromHandle(prop, real_handle(handle));
}

// What a multicast object binds, other cards reach.
VRAM_EXPORT CUresult cuMulticastBindMem(CUmemGenericAllocationHandle multicast, size_t offset,
                                        CUmemGenericAllocationHandle handle, size_t from,
                                        size_t size, unsigned long long flags) {
  VRAM_ENTER(cuMulticastBindMem, multicast, offset, handle, from, size, flags);
  return pinning([&] {
    return real.cuMulticastBindMem(multicast, offset, shared_handle(handle), from, size, flags);
  });
}

VRAM_EXPORT CUresult cuMulticastBindAddr(CUmemGenericAllocationHandle multicast, size_t offset,
                                         CUdeviceptr address, size_t size,
                                         unsigned long long flags) {
  VRAM_ENTER(cuMulticastBindAddr, multicast, offset, address, size, flags);
  return pinning([&] {
    share_addresses(address, size);
    return real.cuMulticastBindAddr(multicast, offset, address, size, flags);
  });
}

// Tiles of a sparse array are mapped by descriptions that hold handles; whole lists of them at
// once.
VRAM_EXPORT CUresult cuMemMapArrayAsync(CUarrayMapInfo* list, unsigned count, CUstream stream) {
  VRAM_ENTER(cuMemMapArrayAsync, list, count, stream);
  return map_tiles(list, count, [&](CUarrayMapInfo* tiles, unsigned n) {
    return real.cuMemMapArrayAsync(tiles, n, stream);
  });
}

VRAM_EXPORT CUresult cuMemMapArrayAsync_ptsz(CUarrayMapInfo* list, unsigned count,
                                             CUstream stream) {
  VRAM_ENTER(cuMemMapArrayAsync_ptsz, list, count, stream);
  return map_tiles(list, count, [&](CUarrayMapInfo* tiles, unsigned n) {
    return real.cuMemMapArrayAsync_ptsz(tiles, n, stream);
  });
}
