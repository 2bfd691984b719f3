#include "sim/virtual_memory.h"

#include <fcntl.h>
#include <sys/mman.h>

#include <iterator>
#include <map>
#include <mutex>
#include <tuple>
#include <unordered_map>
#include <utility>
#include <vector>

#include "sim/address_space.h"
#include "sim/identity.h"
#include "sim/physical.h"
#include "sim/registry.h"
#include "sim/try.h"

namespace vram::sim {
namespace {

using Location = std::pair<int, int>;  // type and id of a CUmemLocation; host types have no id

struct Mapping {
  uint64_t bytes = 0;
  Physical* physical = nullptr;
  std::map<Location, CUmemAccess_flags> access;
  bool host_mapped = false;  // also at the device address itself
};

struct Family {
  std::mutex mutex;
  std::unordered_map<CUmemGenericAllocationHandle, Physical> physicals;
  std::map<CUdeviceptr, uint64_t> reservations;
  std::map<CUdeviceptr, Mapping> mappings;
  CUmemGenericAllocationHandle next_handle = 0x1000;
};

Family& family() {
  static Family* const instance = new Family;
  return *instance;
}

template <typename Map>
auto at_or_before(Map& map, CUdeviceptr address) {
  auto next = map.upper_bound(address);
  return next == map.begin() ? map.end() : std::prev(next);
}

Location key_of(const CUmemLocation& location) {
  const bool device = location.type == CU_MEM_LOCATION_TYPE_DEVICE;
  return {device ? CU_MEM_LOCATION_TYPE_DEVICE : CU_MEM_LOCATION_TYPE_HOST,
          device ? location.id : 0};
}

// A live handle; null when the program has released it as often as it got it.
Physical* find_physical(CUmemGenericAllocationHandle handle) {
  const auto found = family().physicals.find(handle);
  const bool live = found != family().physicals.end() && found->second.references != 0;
  return live ? &found->second : nullptr;
}

Physical& keep(Physical physical) {
  physical.handle = family().next_handle++;
  physical.references = 1;
  return family().physicals[physical.handle] = physical;
}

void drop_if_unused(Physical& physical) {
  if (physical.references != 0 || physical.mappings != 0) return;
  give_memory(physical);
  family().physicals.erase(physical.handle);
}

// The mapping of an address, end() when there is none.
std::map<CUdeviceptr, Mapping>::iterator find_mapping(CUdeviceptr address) {
  const auto found = at_or_before(family().mappings, address);
  const bool inside =
      found != family().mappings.end() && address - found->first < found->second.bytes;
  return inside ? found : family().mappings.end();
}

// The mappings that make up exactly [base, base + bytes), none when they do not.
std::vector<std::map<CUdeviceptr, Mapping>::iterator> whole_mappings(CUdeviceptr base,
                                                                     uint64_t bytes) {
  std::vector<std::map<CUdeviceptr, Mapping>::iterator> found;
  CUdeviceptr expected = base;
  for (auto mapping = family().mappings.find(base);
       mapping != family().mappings.end() && mapping->first == expected && expected - base < bytes;
       ++mapping) {
    expected += mapping->second.bytes;
    found.push_back(mapping);
  }
  if (expected - base != bytes) found.clear();
  return found;
}

bool is_reserved(CUdeviceptr base, uint64_t bytes) {
  const auto range = at_or_before(family().reservations, base);
  return range != family().reservations.end() && base - range->first < range->second &&
         range->second - (base - range->first) >= bytes;
}

bool overlaps_mapping(CUdeviceptr base, uint64_t bytes) {
  if (find_mapping(base) != family().mappings.end()) return true;
  const auto next = family().mappings.lower_bound(base);
  return next != family().mappings.end() && next->first - base < bytes;
}

// Host memory may be used by the host at the device's address, once the host has access.
void map_for_host(CUdeviceptr base, Mapping& mapping) {
  if (mapping.host_mapped) return;
  const Physical& physical = *mapping.physical;
  void* const mapped = ::mmap(reinterpret_cast<void*>(base), mapping.bytes, PROT_READ | PROT_WRITE,
                              MAP_SHARED | MAP_NORESERVE | MAP_FIXED, physical.file(),
                              static_cast<off_t>(physical.offset));
  mapping.host_mapped = mapped != MAP_FAILED;
}

void unmap_for_host(CUdeviceptr base, Mapping& mapping) {
  if (!mapping.host_mapped) return;
  const void* const hidden = ::mmap(reinterpret_cast<void*>(base), mapping.bytes, PROT_NONE,
                                    MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_FIXED, -1, 0);
  mapping.host_mapped = hidden == MAP_FAILED;
}

}  // namespace

CUresult create_physical(size_t bytes, const CUmemAllocationProp& properties,
                         CUmemGenericAllocationHandle* out) {
  Physical physical;
  physical.bytes = bytes;
  physical.properties = properties;
  if (properties.location.type == CU_MEM_LOCATION_TYPE_DEVICE) {
    physical.device = properties.location.id;
  }
  VRAM_SIM_TRY(take_memory(physical));
  const std::lock_guard held(family().mutex);
  *out = keep(physical).handle;
  return CUDA_SUCCESS;
}

CUresult release_physical(CUmemGenericAllocationHandle handle, size_t* given_back) {
  const std::lock_guard held(family().mutex);
  Physical* const physical = find_physical(handle);
  if (physical == nullptr) return CUDA_ERROR_INVALID_VALUE;
  --physical->references;
  *given_back = physical->references == 0 && physical->mappings == 0 ? physical->bytes : 0;
  drop_if_unused(*physical);
  return CUDA_SUCCESS;
}

CUresult retain_physical(CUdeviceptr address, CUmemGenericAllocationHandle* out) {
  const std::lock_guard held(family().mutex);
  const auto mapping = find_mapping(address);
  if (mapping == family().mappings.end()) return CUDA_ERROR_INVALID_VALUE;
  ++mapping->second.physical->references;
  *out = mapping->second.physical->handle;
  return CUDA_SUCCESS;
}

CUresult properties_of(CUmemGenericAllocationHandle handle, CUmemAllocationProp* out) {
  const std::lock_guard held(family().mutex);
  const Physical* const physical = find_physical(handle);
  if (physical == nullptr) return CUDA_ERROR_INVALID_VALUE;
  *out = physical->properties;
  return CUDA_SUCCESS;
}

CUresult export_physical(CUmemGenericAllocationHandle handle, int* descriptor) {
  const std::lock_guard held(family().mutex);
  Physical* const physical = find_physical(handle);
  if (physical == nullptr || physical->own_file < 0) return CUDA_ERROR_INVALID_VALUE;
  VRAM_SIM_TRY(make_object(*physical));
  const int copy = ::fcntl(physical->own_file, F_DUPFD_CLOEXEC, 0);
  if (copy < 0) return CUDA_ERROR_OPERATING_SYSTEM;
  *descriptor = copy;
  return CUDA_SUCCESS;
}

CUresult import_physical(int descriptor, CUmemGenericAllocationHandle* out) {
  const uint64_t object = object_behind(descriptor);
  if (object == 0) return CUDA_ERROR_INVALID_VALUE;
  const std::lock_guard held(family().mutex);
  for (auto& [handle, physical] : family().physicals) {
    if (physical.file_object != object) continue;
    ++physical.references;
    *out = handle;
    return CUDA_SUCCESS;
  }
  Physical physical;
  VRAM_SIM_TRY(adopt(descriptor, &physical));
  *out = keep(physical).handle;
  return CUDA_SUCCESS;
}

CUresult reserve_addresses(size_t bytes, size_t alignment, CUdeviceptr at, CUdeviceptr* out) {
  AddressSpace* const space = AddressSpace::get();
  if (space == nullptr) return CUDA_ERROR_OUT_OF_MEMORY;
  const CUdeviceptr base = space->reserve(bytes, alignment, at);
  if (base == 0) return CUDA_ERROR_OUT_OF_MEMORY;
  const std::lock_guard held(family().mutex);
  family().reservations[base] = bytes;
  *out = base;
  return CUDA_SUCCESS;
}

CUresult free_addresses(CUdeviceptr base, size_t bytes) {
  const std::lock_guard held(family().mutex);
  const auto range = family().reservations.find(base);
  if (range == family().reservations.end() || range->second != bytes ||
      overlaps_mapping(base, bytes)) {
    return CUDA_ERROR_INVALID_VALUE;
  }
  family().reservations.erase(range);
  AddressSpace::get()->unreserve(base, bytes);
  return CUDA_SUCCESS;
}

CUresult map_physical(CUdeviceptr at, size_t bytes, size_t offset,
                      CUmemGenericAllocationHandle handle) {
  const std::lock_guard held(family().mutex);
  Physical* const physical = find_physical(handle);
  if (physical == nullptr) return CUDA_ERROR_INVALID_VALUE;
  if (offset != 0 || bytes < physical->bytes) return CUDA_ERROR_NOT_SUPPORTED;
  if (bytes > physical->bytes || !is_reserved(at, bytes) || overlaps_mapping(at, bytes)) {
    return CUDA_ERROR_INVALID_VALUE;
  }
  Allocation allocation;
  allocation.base = at;
  allocation.bytes = bytes;
  allocation.kind = MemoryKind::kVirtual;
  allocation.device = physical->device < 0 ? 0 : physical->device;
  if (!AddressSpace::get()->map(at, bytes, physical->file(), physical->offset)) {
    return CUDA_ERROR_OUT_OF_MEMORY;
  }
  if (!register_allocation(allocation)) return CUDA_ERROR_UNKNOWN;
  ++physical->mappings;
  family().mappings[at] = {bytes, physical, {}, false};
  return CUDA_SUCCESS;
}

CUresult unmap_range(CUdeviceptr base, size_t bytes) {
  const std::lock_guard held(family().mutex);
  const auto found = whole_mappings(base, bytes);
  if (found.empty()) return CUDA_ERROR_INVALID_VALUE;
  AddressSpace::get()->unmap(base, bytes);
  for (const auto& mapping : found) {
    Allocation allocation;
    (void)take_allocation(mapping->first, MemoryKind::kVirtual, &allocation);
    unmap_for_host(mapping->first, mapping->second);
    Physical& physical = *mapping->second.physical;
    family().mappings.erase(mapping);
    --physical.mappings;
    drop_if_unused(physical);
  }
  return CUDA_SUCCESS;
}

CUresult set_access(CUdeviceptr base, size_t bytes, const CUmemAccessDesc& access) {
  const std::lock_guard held(family().mutex);
  const auto found = whole_mappings(base, bytes);
  if (found.empty()) return CUDA_ERROR_INVALID_VALUE;
  const bool to_host = access.location.type != CU_MEM_LOCATION_TYPE_DEVICE;
  for (const auto& mapping : found) {
    if (to_host && mapping->second.physical->device >= 0) return CUDA_ERROR_INVALID_VALUE;
  }
  for (const auto& mapping : found) {
    auto& allowed = mapping->second.access;
    if (access.flags == CU_MEM_ACCESS_FLAGS_PROT_NONE) {
      allowed.erase(key_of(access.location));
      if (to_host) unmap_for_host(mapping->first, mapping->second);
    } else {
      allowed[key_of(access.location)] = access.flags;
      if (to_host) map_for_host(mapping->first, mapping->second);
    }
    set_accessible(mapping->first, !allowed.empty());
  }
  return CUDA_SUCCESS;
}

CUresult access_of(CUdeviceptr address, const CUmemLocation& location, unsigned long long* flags) {
  const std::lock_guard held(family().mutex);
  const auto mapping = find_mapping(address);
  if (mapping == family().mappings.end()) return CUDA_ERROR_INVALID_VALUE;
  const auto found = mapping->second.access.find(key_of(location));
  *flags = found == mapping->second.access.end() ? CU_MEM_ACCESS_FLAGS_PROT_NONE : found->second;
  return CUDA_SUCCESS;
}

CUresult share_range(CUdeviceptr base, size_t bytes, std::vector<uint64_t>* out) {
  const std::lock_guard held(family().mutex);
  auto mapping = find_mapping(base);
  const auto end = family().mappings.end();
  if (mapping == end) return CUDA_ERROR_INVALID_VALUE;
  const int device = mapping->second.physical->device;
  if (device < 0) return CUDA_ERROR_NOT_SUPPORTED;
  CUdeviceptr covered = mapping->first;
  while (covered <= base || covered - base < bytes) {
    if (mapping == end || mapping->first != covered) return CUDA_ERROR_INVALID_VALUE;
    Physical& physical = *mapping->second.physical;
    if (physical.device != device) return CUDA_ERROR_INVALID_VALUE;
    VRAM_SIM_TRY(make_object(physical));
    out->push_back(physical.object);
    covered += mapping->second.bytes;
    ++mapping;
  }
  return CUDA_SUCCESS;
}

bool handle_types_at(CUdeviceptr address, CUmemAllocationHandleType* out) {
  const std::lock_guard held(family().mutex);
  const auto mapping = find_mapping(address);
  if (mapping == family().mappings.end()) return false;
  *out = mapping->second.physical->properties.requestedHandleTypes;
  return true;
}

bool find_reservation(CUdeviceptr address, CUdeviceptr* base, size_t* bytes) {
  const std::lock_guard held(family().mutex);
  if (!is_reserved(address, 1)) return false;
  const auto range = at_or_before(family().reservations, address);
  *base = range->first;
  *bytes = range->second;
  return true;
}

}  // namespace vram::sim
