#include "sim/registry.h"

#include <map>
#include <mutex>
#include <shared_mutex>

#include "sim/address_space.h"

namespace vram::sim {
namespace {

struct Entry {
  Allocation allocation;
  bool accessible = true;
};

struct Registry {
  std::shared_mutex mutex;
  std::map<CUdeviceptr, Entry> entries;
  uint64_t next_buffer_id = 1;

  std::map<CUdeviceptr, Entry>::iterator find(CUdeviceptr address) {
    auto next = entries.upper_bound(address);
    if (next == entries.begin()) return entries.end();
    --next;
    return address - next->first < next->second.allocation.bytes ? next : entries.end();
  }
};

// Never destroyed: executor threads may outlive main().
Registry& registry() {
  static Registry* const instance = new Registry;
  return *instance;
}

}  // namespace

bool register_allocation(Allocation allocation) {
  Registry& all = registry();
  const std::lock_guard held(all.mutex);
  if (all.find(allocation.base) != all.entries.end()) return false;
  const auto next = all.entries.lower_bound(allocation.base);
  if (next != all.entries.end() && next->first - allocation.base < allocation.bytes) return false;
  allocation.buffer_id = all.next_buffer_id++;
  all.entries[allocation.base] = {allocation, allocation.kind != MemoryKind::kVirtual};
  return true;
}

bool take_allocation(CUdeviceptr base, MemoryKind kind, Allocation* out) {
  Registry& all = registry();
  const std::lock_guard held(all.mutex);
  const auto found = all.entries.find(base);
  if (found == all.entries.end() || found->second.allocation.kind != kind) return false;
  *out = found->second.allocation;
  all.entries.erase(found);
  return true;
}

std::vector<Allocation> allocations_of(const Context& context) {
  Registry& all = registry();
  const std::shared_lock held(all.mutex);
  std::vector<Allocation> found;
  for (const auto& [base, entry] : all.entries) {
    if (entry.allocation.context == &context) found.push_back(entry.allocation);
  }
  return found;
}

void set_accessible(CUdeviceptr base, bool accessible) {
  Registry& all = registry();
  const std::lock_guard held(all.mutex);
  const auto found = all.entries.find(base);
  if (found != all.entries.end()) found->second.accessible = accessible;
}

bool find_allocation(CUdeviceptr address, Allocation* out) {
  Registry& all = registry();
  const std::shared_lock held(all.mutex);
  const auto found = all.find(address);
  if (found == all.entries.end()) return false;
  *out = found->second.allocation;
  return true;
}

bool is_device_address(CUdeviceptr address) {
  const AddressSpace* const space = AddressSpace::get();
  return space != nullptr && space->contains(address);
}

void* host_view(CUdeviceptr address, size_t bytes) {
  if (bytes == 0) bytes = 1;
  Registry& all = registry();
  const std::shared_lock held(all.mutex);
  auto entry = all.find(address);
  CUdeviceptr covered = address;
  // Adjacent mappings of virtual memory make one range; all other allocations stand alone.
  while (entry != all.entries.end() && entry->first <= covered && entry->second.accessible) {
    const Allocation& allocation = entry->second.allocation;
    covered = allocation.base + allocation.bytes;
    if (covered - address >= bytes) {
      return is_device_address(address) ? AddressSpace::get()->shadow(address)
                                        : reinterpret_cast<void*>(address);
    }
    if (allocation.kind != MemoryKind::kVirtual) return nullptr;
    ++entry;
    if (entry == all.entries.end() || entry->first != covered) return nullptr;
  }
  return nullptr;
}

}  // namespace vram::sim
