#include "pool/dry_driver.h"

#include <map>
#include <mutex>
#include <new>
#include <vector>

namespace vram::pool {
namespace {

constexpr std::uint64_t kGranularity = std::uint64_t{2} << 20;
constexpr std::uint64_t kFirstAddress = std::uint64_t{0x7} << 40;
constexpr int kCards = 8;

struct Mapping {
  std::uint64_t bytes;
  CUmemGenericAllocationHandle handle;
};
struct Handle {
  std::uint64_t bytes;
  int card;
  bool mapped;
};
struct Write {
  std::uint64_t* word;
  std::uint64_t value;
};

struct Dry {
  std::mutex lock;
  std::uint64_t capacity = 0;
  std::uint64_t held[kCards] = {};
  std::uint64_t all_held = 0;
  std::uint64_t peak = 0;
  std::uint64_t next_address = kFirstAddress;
  std::uint64_t next_handle = 1;
  std::uint64_t addresses_left = ~std::uint64_t{0};
  std::map<CUdeviceptr, std::uint64_t> reservations;
  std::map<CUdeviceptr, Mapping> mappings;
  std::map<CUmemGenericAllocationHandle, Handle> handles;
  std::map<CUdeviceptr, std::uint64_t> blocks;
  std::map<void*, std::size_t> pinned;
  std::uint64_t faults = 0;
  std::uint64_t fail[static_cast<unsigned>(DryCall::kKinds)] = {};
  bool holding = false;
  std::vector<Write> held_writes;
};

Dry dry;
int current_card = 0;
char context_of[kCards];

bool fails(DryCall call) {
  std::uint64_t& left = dry.fail[static_cast<unsigned>(call)];
  return left != 0 && --left == 0;
}

CUresult fault() {
  ++dry.faults;
  return CUDA_ERROR_INVALID_VALUE;
}

bool charge(int card, std::uint64_t bytes) {
  if (bytes > dry.capacity - dry.held[card]) return false;
  dry.held[card] += bytes;
  dry.all_held += bytes;
  if (dry.all_held > dry.peak) dry.peak = dry.all_held;
  return true;
}

void uncharge(int card, std::uint64_t bytes) {
  dry.held[card] -= bytes;
  dry.all_held -= bytes;
}

std::uint64_t new_addresses(std::uint64_t bytes, std::uint64_t alignment) {
  const std::uint64_t unit = alignment > kGranularity ? alignment : kGranularity;
  const std::uint64_t at = (dry.next_address + unit - 1) / unit * unit;
  dry.next_address = at + bytes;
  return at;
}

CUresult init(unsigned) { return CUDA_SUCCESS; }
CUresult driver_version(int* version) {
  *version = 13000;
  return CUDA_SUCCESS;
}
CUresult device_count(int* count) {
  *count = kCards;
  return CUDA_SUCCESS;
}
CUresult device_get(CUdevice* device, int ordinal) {
  if (ordinal < 0 || ordinal >= kCards) return CUDA_ERROR_INVALID_DEVICE;
  *device = ordinal;
  return CUDA_SUCCESS;
}
CUresult device_attribute(int* value, CUdevice_attribute attribute, CUdevice) {
  *value = attribute == CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR ? 9 : 0;
  return CUDA_SUCCESS;
}
CUresult device_total(std::size_t* bytes, CUdevice) {
  *bytes = dry.capacity;
  return CUDA_SUCCESS;
}
CUresult primary_retain(CUcontext* context, CUdevice device) {
  *context = reinterpret_cast<CUcontext>(&context_of[device]);
  return CUDA_SUCCESS;
}
CUresult primary_release(CUdevice) { return CUDA_SUCCESS; }
CUresult context_push(CUcontext) { return CUDA_SUCCESS; }
CUresult context_pop(CUcontext*) { return CUDA_SUCCESS; }
CUresult mem_info(std::size_t* free, std::size_t* total) {
  const std::lock_guard<std::mutex> hold(dry.lock);
  *total = dry.capacity;
  *free = dry.capacity - dry.held[current_card];
  return CUDA_SUCCESS;
}

CUresult mem_alloc(CUdeviceptr* address, std::size_t bytes) {
  const std::lock_guard<std::mutex> hold(dry.lock);
  if (bytes == 0) return fault();
  // The driver takes whole large pages for what is larger than one.
  const std::uint64_t taken = (bytes + kGranularity - 1) / kGranularity * kGranularity;
  if (fails(DryCall::kAlloc) || !charge(current_card, taken)) return CUDA_ERROR_OUT_OF_MEMORY;
  *address = new_addresses(taken, 0);
  dry.blocks[*address] = taken;
  return CUDA_SUCCESS;
}
CUresult mem_alloc_managed(CUdeviceptr* address, std::size_t bytes, unsigned) {
  return mem_alloc(address, bytes);
}
CUresult mem_free(CUdeviceptr address) {
  const std::lock_guard<std::mutex> hold(dry.lock);
  const auto block = dry.blocks.find(address);
  if (block == dry.blocks.end()) return fault();
  uncharge(current_card, block->second);
  dry.blocks.erase(block);
  return CUDA_SUCCESS;
}

CUresult host_alloc(void** address, std::size_t bytes, unsigned) {
  const std::lock_guard<std::mutex> hold(dry.lock);
  if (fails(DryCall::kHost)) return CUDA_ERROR_OUT_OF_MEMORY;
  *address = ::operator new (bytes, std::align_val_t{4096}, std::nothrow);
  if (*address == nullptr) return CUDA_ERROR_OUT_OF_MEMORY;
  dry.pinned[*address] = bytes;
  return CUDA_SUCCESS;
}
CUresult host_free(void* address) {
  const std::lock_guard<std::mutex> hold(dry.lock);
  if (dry.pinned.erase(address) == 0) return fault();
  ::operator delete (address, std::align_val_t{4096});
  return CUDA_SUCCESS;
}
CUresult host_device_pointer(CUdeviceptr* device, void* address, unsigned) {
  *device = reinterpret_cast<CUdeviceptr>(address);
  return CUDA_SUCCESS;
}

CUresult granularity(std::size_t* bytes, const CUmemAllocationProp*,
                     CUmemAllocationGranularity_flags) {
  *bytes = kGranularity;
  return CUDA_SUCCESS;
}
CUresult address_reserve(CUdeviceptr* address, std::size_t bytes, std::size_t alignment,
                         CUdeviceptr, unsigned long long) {
  const std::lock_guard<std::mutex> hold(dry.lock);
  if (bytes == 0 || bytes % kGranularity != 0) return fault();
  if (fails(DryCall::kReserve) || bytes > dry.addresses_left) return CUDA_ERROR_OUT_OF_MEMORY;
  dry.addresses_left -= bytes;
  *address = new_addresses(bytes, alignment);
  dry.reservations[*address] = bytes;
  return CUDA_SUCCESS;
}
CUresult address_free(CUdeviceptr address, std::size_t bytes) {
  const std::lock_guard<std::mutex> hold(dry.lock);
  const auto reservation = dry.reservations.find(address);
  if (reservation == dry.reservations.end() || reservation->second != bytes) return fault();
  const auto mapped = dry.mappings.lower_bound(address);
  if (mapped != dry.mappings.end() && mapped->first < address + bytes) return fault();
  dry.reservations.erase(reservation);
  dry.addresses_left += bytes;
  return CUDA_SUCCESS;
}

CUresult handle_create(CUmemGenericAllocationHandle* handle, std::size_t bytes,
                       const CUmemAllocationProp* properties, unsigned long long) {
  const std::lock_guard<std::mutex> hold(dry.lock);
  const int card = properties->location.id;
  if (bytes == 0 || bytes % kGranularity != 0 || card < 0 || card >= kCards) return fault();
  if (fails(DryCall::kCreate) || !charge(card, bytes)) return CUDA_ERROR_OUT_OF_MEMORY;
  *handle = dry.next_handle++;
  dry.handles[*handle] = {bytes, card, false};
  return CUDA_SUCCESS;
}
CUresult handle_release(CUmemGenericAllocationHandle handle) {
  const std::lock_guard<std::mutex> hold(dry.lock);
  const auto known = dry.handles.find(handle);
  if (known == dry.handles.end() || known->second.mapped) return fault();
  if (fails(DryCall::kRelease)) return CUDA_ERROR_OUT_OF_MEMORY;
  uncharge(known->second.card, known->second.bytes);
  dry.handles.erase(known);
  return CUDA_SUCCESS;
}

bool reserved(CUdeviceptr address, std::uint64_t bytes) {
  auto reservation = dry.reservations.upper_bound(address);
  if (reservation == dry.reservations.begin()) return false;
  --reservation;
  return address + bytes <= reservation->first + reservation->second;
}

CUresult map(CUdeviceptr address, std::size_t bytes, std::size_t offset,
             CUmemGenericAllocationHandle handle, unsigned long long) {
  const std::lock_guard<std::mutex> hold(dry.lock);
  const auto known = dry.handles.find(handle);
  // A handle is mapped whole.
  if (known == dry.handles.end() || known->second.mapped || known->second.bytes != bytes ||
      offset != 0 || !reserved(address, bytes)) {
    return fault();
  }
  const auto next = dry.mappings.lower_bound(address);
  if (next != dry.mappings.end() && next->first < address + bytes) return fault();
  if (next != dry.mappings.begin()) {
    const auto before = std::prev(next);
    if (before->first + before->second.bytes > address) return fault();
  }
  if (fails(DryCall::kMap)) return CUDA_ERROR_OUT_OF_MEMORY;
  known->second.mapped = true;
  dry.mappings[address] = {bytes, handle};
  return CUDA_SUCCESS;
}

// Whether mappings cover the range exactly.
bool covered(CUdeviceptr address, std::uint64_t bytes) {
  const CUdeviceptr end = address + bytes;
  for (auto it = dry.mappings.find(address); address < end; ++it) {
    if (it == dry.mappings.end() || it->first != address) return false;
    address += it->second.bytes;
  }
  return address == end;
}

CUresult unmap(CUdeviceptr address, std::size_t bytes) {
  const std::lock_guard<std::mutex> hold(dry.lock);
  if (!covered(address, bytes)) return fault();
  if (fails(DryCall::kUnmap)) return CUDA_ERROR_OUT_OF_MEMORY;
  const auto begin = dry.mappings.find(address);
  const auto end = dry.mappings.lower_bound(address + bytes);
  for (auto it = begin; it != end; ++it) dry.handles[it->second.handle].mapped = false;
  dry.mappings.erase(begin, end);
  return CUDA_SUCCESS;
}
CUresult set_access(CUdeviceptr address, std::size_t bytes, const CUmemAccessDesc*, std::size_t) {
  const std::lock_guard<std::mutex> hold(dry.lock);
  if (!covered(address, bytes)) return fault();
  return fails(DryCall::kAccess) ? CUDA_ERROR_OUT_OF_MEMORY : CUDA_SUCCESS;
}

CUresult stream_write(CUstream, CUdeviceptr address, cuuint64_t value, unsigned) {
  const std::lock_guard<std::mutex> hold(dry.lock);
  auto* word = reinterpret_cast<std::uint64_t*>(address);
  if (dry.holding) {
    dry.held_writes.push_back({word, value});
  } else {
    __atomic_store_n(word, value, __ATOMIC_RELEASE);
  }
  return CUDA_SUCCESS;
}
CUresult stream_is_capturing(CUstream, CUstreamCaptureStatus* status) {
  *status = CU_STREAM_CAPTURE_STATUS_NONE;
  return CUDA_SUCCESS;
}
CUresult stream_query(CUstream) {
  const std::lock_guard<std::mutex> hold(dry.lock);
  return dry.holding ? CUDA_ERROR_NOT_READY : CUDA_SUCCESS;
}
CUresult stream_synchronize(CUstream) { return CUDA_SUCCESS; }
CUresult context_synchronize() { return CUDA_SUCCESS; }

constexpr DriverCalls table() {
  DriverCalls calls{};
  calls.init = init;
  calls.driver_version = driver_version;
  calls.device_count = device_count;
  calls.device_get = device_get;
  calls.device_attribute = device_attribute;
  calls.device_total = device_total;
  calls.primary_retain = primary_retain;
  calls.primary_release = primary_release;
  calls.context_push = context_push;
  calls.context_pop = context_pop;
  calls.mem_info = mem_info;
  calls.mem_alloc = mem_alloc;
  calls.mem_alloc_managed = mem_alloc_managed;
  calls.mem_free = mem_free;
  calls.host_alloc = host_alloc;
  calls.host_free = host_free;
  calls.host_device_pointer = host_device_pointer;
  calls.granularity = granularity;
  calls.address_reserve = address_reserve;
  calls.address_free = address_free;
  calls.handle_create = handle_create;
  calls.handle_release = handle_release;
  calls.map = map;
  calls.unmap = unmap;
  calls.set_access = set_access;
  calls.stream_write = stream_write;
  calls.stream_query = stream_query;
  calls.stream_is_capturing = stream_is_capturing;
  calls.stream_synchronize = stream_synchronize;
  calls.context_synchronize = context_synchronize;
  return calls;
}

constexpr DriverCalls kCalls = table();

}  // namespace

const DriverCalls& dry_driver(std::uint64_t bytes_per_card) {
  const std::lock_guard<std::mutex> hold(dry.lock);
  dry.capacity = bytes_per_card;
  dry.addresses_left = ~std::uint64_t{0};
  dry.peak = dry.all_held;
  dry.faults = 0;
  return kCalls;
}

DryCounts dry_counts() {
  const std::lock_guard<std::mutex> hold(dry.lock);
  std::uint64_t mapped = 0;
  for (const auto& [handle, what] : dry.handles) mapped += what.mapped ? 1 : 0;
  return {dry.all_held,      dry.peak,  dry.handles.size(), mapped, dry.reservations.size(),
          dry.pinned.size(), dry.faults};
}

void fail_dry(DryCall call, std::uint64_t n) {
  const std::lock_guard<std::mutex> hold(dry.lock);
  dry.fail[static_cast<unsigned>(call)] = n;
}

void limit_dry_addresses(std::uint64_t bytes) {
  const std::lock_guard<std::mutex> hold(dry.lock);
  dry.addresses_left = bytes;
}

void hold_dry_streams() {
  const std::lock_guard<std::mutex> hold(dry.lock);
  dry.holding = true;
}

void let_dry_streams_go() {
  const std::lock_guard<std::mutex> hold(dry.lock);
  for (const Write& write : dry.held_writes) {
    __atomic_store_n(write.word, write.value, __ATOMIC_RELEASE);
  }
  dry.held_writes.clear();
  dry.holding = false;
}

}  // namespace vram::pool
