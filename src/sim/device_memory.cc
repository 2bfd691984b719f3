#include "sim/device_memory.h"

#include <map>
#include <memory>
#include <mutex>
#include <utility>
#include <vector>

#include "sim/address_space.h"
#include "sim/driver.h"
#include "sim/host_memory.h"
#include "sim/identity.h"
#include "sim/memory.h"
#include "sim/registry.h"

namespace vram::sim {
namespace {

constexpr size_t kGranule = 512;
constexpr size_t kLargestSlabRequest = 1u << 20;

struct Region {
  CUdeviceptr base = 0;
  uint64_t bytes = 0;
  Context* context = nullptr;
  uint64_t object = 0;
  bool is_slab = false;
  size_t kind = 0;      // of a slab
  RangeAllocator free;  // of a slab
  uint64_t free_bytes = 0;
  uint64_t too_large = UINT64_MAX;  // no hole of so many bytes has been found since the last free
};

struct Regions {
  std::mutex mutex;
  std::map<CUdeviceptr, Region> by_base;
  std::map<std::pair<Context*, size_t>, std::map<CUdeviceptr, Region*>> slabs_with_room;
  std::vector<RegionView> quarantine;  // freed here, held elsewhere
};

Regions& regions() {
  static Regions* const instance = new Regions;
  return *instance;
}

// The region that holds `address`; the caller holds the lock.
Region* find_region(CUdeviceptr address) {
  auto next = regions().by_base.upper_bound(address);
  if (next == regions().by_base.begin()) return nullptr;
  Region& region = std::prev(next)->second;
  return address - region.base < region.bytes ? &region : nullptr;
}

void reuse_quarantined() {
  std::erase_if(regions().quarantine, [](const RegionView& view) {
    if (driver().machine->held_by_others(view.object)) return false;
    AddressSpace::get()->release(view.base, view.bytes);
    return true;
  });
}

Region* new_region(Context& context, uint64_t bytes) {
  if (charge(context.device, bytes) != CUDA_SUCCESS) return nullptr;
  reuse_quarantined();
  AddressSpace* const space = AddressSpace::get();
  const CUdeviceptr base = space == nullptr ? 0 : space->allocate(bytes);
  if (base == 0) {
    uncharge(context.device, bytes);
    return nullptr;
  }
  Region& region = regions().by_base[base];
  region.base = base;
  region.bytes = bytes;
  region.context = &context;
  return &region;
}

void delete_region(Region& region) {
  const RegionView view{region.base, region.bytes, region.context->device, region.object};
  regions().by_base.erase(view.base);
  if (view.object == 0) {
    AddressSpace::get()->release(view.base, view.bytes);
    uncharge(view.device, view.bytes);
  } else if (driver().machine->drop(view.object)) {
    AddressSpace::get()->release(view.base, view.bytes);
  } else {
    regions().quarantine.push_back(view);
  }
}

CUdeviceptr carve(Context& context, uint64_t bytes, size_t kind) {
  std::map<CUdeviceptr, Region*>& with_room = regions().slabs_with_room[{&context, kind}];
  for (const auto& [base, slab] : with_room) {
    if (slab->free_bytes < bytes || slab->too_large <= bytes) continue;
    const CUdeviceptr block = slab->free.allocate(bytes, kGranule);
    if (block == 0) {
      slab->too_large = bytes;
      continue;
    }
    slab->free_bytes -= bytes;
    if (slab->free_bytes == 0) with_room.erase(base);
    return block;
  }
  Region* const slab = new_region(context, kPieceBytes);
  if (slab == nullptr) return 0;
  slab->is_slab = true;
  slab->kind = kind;
  slab->free.add(slab->base, slab->bytes);
  slab->free_bytes = slab->bytes - bytes;
  with_room[slab->base] = slab;
  return slab->free.allocate(bytes, kGranule);
}

void release_block(CUdeviceptr base, size_t bytes) {
  const std::lock_guard held(regions().mutex);
  Region* const region = find_region(base);
  if (region->is_slab) {
    std::map<CUdeviceptr, Region*>& with_room =
        regions().slabs_with_room[{region->context, region->kind}];
    const uint64_t granules = round_up(bytes, kGranule);
    region->free.release(base, granules);
    region->free_bytes += granules;
    region->too_large = UINT64_MAX;
    with_room[region->base] = region;
    if (region->free_bytes != region->bytes) return;
    with_room.erase(region->base);
  }
  delete_region(*region);
}

}  // namespace

CUresult charge(int device, size_t bytes) {
  return driver().machine->charge(card_of(device), bytes) ? CUDA_SUCCESS : CUDA_ERROR_OUT_OF_MEMORY;
}

void uncharge(int device, size_t bytes) { driver().machine->uncharge(card_of(device), bytes); }

CUresult device_allocate(Context& context, size_t bytes, CUdeviceptr* out, size_t kind) {
  if (bytes == 0) return CUDA_ERROR_INVALID_VALUE;
  // Also keeps the rounding below from overflowing.
  if (bytes > driver().machine->card_bytes(card_of(context.device))) {
    return CUDA_ERROR_OUT_OF_MEMORY;
  }
  CUdeviceptr base = 0;
  {
    const std::lock_guard held(regions().mutex);
    if (bytes <= kLargestSlabRequest) {
      base = carve(context, round_up(bytes, kGranule), kind);
    } else if (Region* const region = new_region(context, round_up(bytes, kPieceBytes))) {
      base = region->base;
    }
  }
  if (base == 0) return CUDA_ERROR_OUT_OF_MEMORY;
  Allocation allocation;
  allocation.base = base;
  allocation.bytes = bytes;
  allocation.device = context.device;
  allocation.context = &context;
  if (!register_allocation(allocation)) {
    release_block(base, bytes);
    return CUDA_ERROR_UNKNOWN;
  }
  *out = base;
  return CUDA_SUCCESS;
}

CUresult device_free(CUdeviceptr base) {
  Allocation allocation;
  if (!take_allocation(base, MemoryKind::kDevice, &allocation)) return CUDA_ERROR_INVALID_VALUE;
  release_block(base, allocation.bytes);
  return CUDA_SUCCESS;
}

CUresult share_region(CUdeviceptr address, RegionView* out) {
  const std::lock_guard held(regions().mutex);
  Region* const region = find_region(address);
  if (region == nullptr) return CUDA_ERROR_INVALID_VALUE;
  const int device = region->context->device;
  if (region->object == 0) {
    const uint64_t object = driver().machine->new_object();
    if (!driver().machine->share(object, card_of(device), region->bytes)) {
      return CUDA_ERROR_OUT_OF_MEMORY;
    }
    region->object = object;
  }
  *out = {region->base, region->bytes, device, region->object};
  return CUDA_SUCCESS;
}

void free_memory_of(Context& context) {
  for (const Allocation& allocation : allocations_of(context)) {
    if (allocation.kind == MemoryKind::kDevice) {
      (void)device_free(allocation.base);
    } else {
      free_host_kind(allocation);
    }
  }
}

}  // namespace vram::sim
