// Handles and mappings: what the driver's functions become. See move.cc for the moving.

#include "residency/elastic_memory.h"

#include "base/hold.h"

namespace vram::residency {
namespace {

using base::Hold;

// No driver's handle has these high bits: theirs are small numbers or addresses.
constexpr std::uint64_t kMark = std::uint64_t{0x7652} << 48;
constexpr std::uint64_t kMarkMask = std::uint64_t{0xffff} << 48;
constexpr std::uint32_t kGenerations = 0xffff;

}  // namespace

bool ElasticMemory::open(const Calls& driver, std::uint64_t batch) {
  driver_ = driver;
  batch_ = batch;
  return backing_.reserve(kMost) && mapping_.reserve(kMost) && order_.reserve(kMost);
}

bool ElasticMemory::is_ours(CUmemGenericAllocationHandle handle) {
  return (handle & kMarkMask) == kMark;
}

CUmemGenericAllocationHandle ElasticMemory::handle_of(Index backing) const {
  return kMark | std::uint64_t{backing_[backing].generation & kGenerations} << 32 | backing;
}

ElasticMemory::Index ElasticMemory::find(CUmemGenericAllocationHandle handle) const {
  const auto backing = static_cast<Index>(handle);
  const bool known = is_ours(handle) && backing != 0 && backing <= backings_used_ &&
                     backing_[backing].bytes != 0 && handle_of(backing) == handle;
  return known ? backing : 0;
}

ElasticMemory::Index ElasticMemory::mapping_at(CUdeviceptr address) const {
  const base::LevelTable::Entry* entry = address == 0 ? nullptr : at_.find(address);
  return entry == nullptr ? 0 : static_cast<Index>(entry->value.load(std::memory_order_relaxed));
}

// Calls visit(mapping) for each of ours that begins in the range. False: something else is mapped
// there, too, or nothing.
template <typename Visit>
bool ElasticMemory::for_mappings(CUdeviceptr address, std::size_t size, Visit visit) {
  for (CUdeviceptr at = address; at < address + size;) {
    const Index mapping = mapping_at(at);
    if (mapping == 0) return false;
    at += mapping_[mapping].bytes;
    visit(mapping);
  }
  return true;
}

ElasticMemory::Index ElasticMemory::new_backing() {
  if (free_backing_ != 0) {
    const Index backing = free_backing_;
    free_backing_ = backing_[backing].next_free;
    return backing;
  }
  return backings_used_ + 1 < kMost ? ++backings_used_ : 0;
}

ElasticMemory::Index ElasticMemory::new_mapping() {
  if (free_mapping_ != 0) {
    const Index mapping = free_mapping_;
    free_mapping_ = mapping_[mapping].next_free;
    return mapping;
  }
  return mappings_used_ + 1 < kMost ? ++mappings_used_ : 0;
}

void ElasticMemory::count(Counts& counts, const Backing& backing, std::int64_t sign) const {
  counts[card_of(backing)][static_cast<unsigned>(backing.owner)].fetch_add(
      static_cast<std::uint64_t>(sign) * backing.bytes, std::memory_order_relaxed);
}

void ElasticMemory::pin(bool* mark) {
  if (!*mark) pins_.fetch_add(1, std::memory_order_release);
  *mark = true;
}

CUresult ElasticMemory::create(CUmemGenericAllocationHandle* handle, std::size_t size,
                               const CUmemAllocationProp* prop, unsigned long long flags,
                               Owner owner) {
  const bool movable = prop != nullptr && handle != nullptr &&
                       prop->location.type == CU_MEM_LOCATION_TYPE_DEVICE &&
                       prop->location.id >= 0 && prop->location.id < static_cast<int>(kMostCards);
  CUmemGenericAllocationHandle made = 0;
  const CUresult result = driver_.create(movable ? &made : handle, size, prop, flags);
  if (result != CUDA_SUCCESS || !movable) return result;
  const Hold hold(lock_);
  const Index index = new_backing();
  if (index == 0) {
    (void)driver_.release(made);
    return CUDA_ERROR_OUT_OF_MEMORY;
  }
  Backing& backing = backing_[index];
  const std::uint32_t generation = backing.generation + 1;
  backing = {};
  backing.real = made;
  backing.prop = *prop;
  backing.flags = flags;
  backing.bytes = size;
  backing.generation = generation;
  backing.references = 1;
  backing.owner = owner;
  count(bytes_, backing, 1);
  *handle = handle_of(index);
  return CUDA_SUCCESS;
}

// With the lock. The memory goes when nobody refers to it any more.
CUresult ElasticMemory::drop_if_unused(Index index) {
  Backing& backing = backing_[index];
  if (backing.references != 0 || backing.mappings != 0) return CUDA_SUCCESS;
  const CUresult released = driver_.release(backing.real);
  if (released != CUDA_SUCCESS) return released;
  count(bytes_, backing, -1);
  if (backing.shared) pins_.fetch_sub(1, std::memory_order_release);
  backing.bytes = 0;
  backing.real = 0;
  backing.next_free = free_backing_;
  free_backing_ = index;
  return CUDA_SUCCESS;
}

CUresult ElasticMemory::release(CUmemGenericAllocationHandle handle) {
  if (!is_ours(handle)) return driver_.release(handle);
  const Hold hold(lock_);
  const Index index = find(handle);
  if (index == 0 || backing_[index].references == 0) return CUDA_ERROR_INVALID_VALUE;
  --backing_[index].references;
  const CUresult dropped = drop_if_unused(index);
  if (dropped != CUDA_SUCCESS) ++backing_[index].references;
  return dropped;
}

CUresult ElasticMemory::map(CUdeviceptr address, std::size_t size, std::size_t offset,
                            CUmemGenericAllocationHandle handle, unsigned long long flags) {
  if (!is_ours(handle)) return driver_.map(address, size, offset, handle, flags);
  const Hold hold(lock_);
  const Index index = find(handle);
  if (index == 0 || backing_[index].references == 0) return CUDA_ERROR_INVALID_VALUE;
  Backing& backing = backing_[index];
  const Index at = new_mapping();
  if (at == 0) return CUDA_ERROR_OUT_OF_MEMORY;
  Mapping& mapping = mapping_[at];
  CUresult result = driver_.map(address, size, offset, backing.real, flags);
  if (result == CUDA_SUCCESS && !at_.insert(address, at)) {
    (void)driver_.unmap(address, size);
    result = CUDA_ERROR_OUT_OF_MEMORY;
  }
  if (result != CUDA_SUCCESS) {
    mapping.next_free = free_mapping_;
    free_mapping_ = at;
    return result;
  }
  mapping = {};
  mapping.address = address;
  mapping.bytes = size;
  mapping.number = ++numbers_;
  mapping.flags = flags;
  mapping.backing = index;
  mapping.next_of_backing = backing.first_mapping;
  backing.first_mapping = at;
  ++backing.mappings;
  // Drivers map a handle whole so far; a part could not be copied through.
  if (offset != 0 || size != backing.bytes) pin(&backing.shared);
  return CUDA_SUCCESS;
}

// With the lock.
void ElasticMemory::forget_mapping(Index at) {
  Mapping& mapping = mapping_[at];
  Backing& backing = backing_[mapping.backing];
  Index* link = &backing.first_mapping;
  while (*link != at) link = &mapping_[*link].next_of_backing;
  *link = mapping.next_of_backing;
  --backing.mappings;
  std::uint64_t value = 0;
  (void)at_.take(mapping.address, &value);
  // Memory that the driver does not take back now is lost to the program, as it would be without
  // us: the range is unmapped.
  (void)drop_if_unused(mapping.backing);
  if (mapping.odd) pins_.fetch_sub(1, std::memory_order_release);
  mapping.bytes = 0;
  mapping.next_free = free_mapping_;
  free_mapping_ = at;
}

CUresult ElasticMemory::unmap(CUdeviceptr address, std::size_t size) {
  const Hold hold(lock_);
  const CUresult unmapped = driver_.unmap(address, size);
  if (unmapped != CUDA_SUCCESS) return unmapped;
  for (CUdeviceptr at = address; at < address + size;) {
    const Index mapping = mapping_at(at);
    if (mapping == 0) break;
    at += mapping_[mapping].bytes;
    forget_mapping(mapping);
  }
  return CUDA_SUCCESS;
}

CUresult ElasticMemory::set_access(CUdeviceptr address, std::size_t size,
                                   const CUmemAccessDesc* access, std::size_t count) {
  const Hold hold(lock_);
  const CUresult result = driver_.set_access(address, size, access, count);
  if (result != CUDA_SUCCESS) return result;
  (void)for_mappings(address, size, [&](Index at) {
    Mapping& mapping = mapping_[at];
    for (std::size_t i = 0; i < count; ++i) {
      const CUmemLocation& who = access[i].location;
      if (who.type != CU_MEM_LOCATION_TYPE_DEVICE || who.id < 0 ||
          who.id >= static_cast<int>(kMostCards)) {
        pin(&mapping.odd);
        continue;
      }
      const std::uint64_t bit = std::uint64_t{1} << who.id;
      const bool readable = access[i].flags != CU_MEM_ACCESS_FLAGS_PROT_NONE;
      const bool writable = access[i].flags == CU_MEM_ACCESS_FLAGS_PROT_READWRITE;
      mapping.readable = readable ? mapping.readable | bit : mapping.readable & ~bit;
      mapping.writable = writable ? mapping.writable | bit : mapping.writable & ~bit;
    }
  });
  return result;
}

// Asked rarely, so there is no index for an address inside.
ElasticMemory::Index ElasticMemory::mapping_around(CUdeviceptr address) const {
  if (const Index first = mapping_at(address); first != 0) return first;
  for (Index at = 1; at <= mappings_used_; ++at) {
    if (address - mapping_[at].address < mapping_[at].bytes) return at;
  }
  return 0;
}

bool ElasticMemory::retain(CUmemGenericAllocationHandle* handle, CUdeviceptr address) {
  const Hold hold(lock_);
  const Index at = mapping_around(address);
  if (at == 0) return false;
  ++backing_[mapping_[at].backing].references;
  *handle = handle_of(mapping_[at].backing);
  return true;
}

bool ElasticMemory::is_mapped_in(CUdeviceptr address, std::size_t size) {
  const Hold hold(lock_);
  for (Index at = 1; at <= mappings_used_; ++at) {
    if (mapping_[at].bytes != 0 && mapping_[at].address - address < size) return true;
  }
  return false;
}

std::uint64_t ElasticMemory::number_at(CUdeviceptr address) {
  const Hold hold(lock_);
  const Index at = mapping_around(address);
  return at == 0 ? 0 : mapping_[at].number;
}

CUmemGenericAllocationHandle ElasticMemory::real(CUmemGenericAllocationHandle handle) {
  const Hold hold(lock_);
  const Index backing = find(handle);
  return backing == 0 ? handle : backing_[backing].real;
}

CUmemGenericAllocationHandle ElasticMemory::share(CUmemGenericAllocationHandle handle) {
  const Hold hold(lock_);
  const Index backing = find(handle);
  if (backing == 0) return handle;
  pin(&backing_[backing].shared);
  return backing_[backing].real;
}

void ElasticMemory::share_range(CUdeviceptr address, std::size_t size) {
  const Hold hold(lock_);
  (void)for_mappings(address, size, [&](Index at) { pin(&backing_[mapping_[at].backing].shared); });
}

void ElasticMemory::share_around(CUdeviceptr address) {
  const Hold hold(lock_);
  const Index at = mapping_around(address);
  if (at != 0) pin(&backing_[mapping_[at].backing].shared);
}

}  // namespace vram::residency
