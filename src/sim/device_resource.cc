#include "sim/device_resource.h"

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <map>
#include <memory>
#include <mutex>
#include <utility>

#include "sim/identity.h"

namespace vram::sim {
namespace {

// Compute capability 9.0: groups are of 8 multiprocessors, or of 2 where clusters do not matter.
constexpr unsigned kGroup = 8;
constexpr unsigned kSmallestGroup = 2;

constexpr uint32_t kMagic = 0x6d736472;  // "rdsm"

struct Origin {
  uint32_t magic;
  int32_t device;
  uint64_t split;  // 0: a device's or a context's
};
static_assert(sizeof(Origin) <= sizeof(CUdevResource::_internal_padding));

struct Family {
  std::mutex mutex;
  std::map<CUdevResourceDesc, std::unique_ptr<Description>> descriptions;
  uint64_t splits = 0;
};

Family& family() {
  static Family* const instance = new Family;
  return *instance;
}

CUdevResource make(const Origin& origin, unsigned count) {
  CUdevResource resource = {};
  resource.type = CU_DEV_RESOURCE_TYPE_SM;
  std::memcpy(resource._internal_padding, &origin, sizeof(origin));
  resource.sm.smCount = count;
  resource.sm.minSmPartitionSize = kGroup;
  resource.sm.smCoscheduledAlignment = kGroup;
  return resource;
}

bool read(const CUdevResource& resource, Origin* out) {
  std::memcpy(out, resource._internal_padding, sizeof(*out));
  return resource.type == CU_DEV_RESOURCE_TYPE_SM && out->magic == kMagic;
}

}  // namespace

CUdevResource multiprocessors(int device, unsigned count) {
  return make({kMagic, device, 0}, count);
}

CUresult split(const CUdevResource& from, unsigned flags, unsigned least, CUdevResource* result,
               unsigned* groups, CUdevResource* rest) {
  Origin origin = {};
  if (!read(from, &origin)) return CUDA_ERROR_INVALID_RESOURCE_TYPE;
  const bool fine = (flags & CU_DEV_SM_RESOURCE_SPLIT_IGNORE_SM_COSCHEDULING) != 0;
  const unsigned unit = fine ? kSmallestGroup : kGroup;
  const unsigned all = from.sm.smCount;
  if (origin.split != 0 || least > all) return CUDA_ERROR_INVALID_RESOURCE_CONFIGURATION;
  const unsigned size = std::max(unit, (least + unit - 1) / unit * unit);
  if (size > all) return CUDA_ERROR_INVALID_RESOURCE_CONFIGURATION;
  const unsigned possible = all / size;
  if (result == nullptr) {
    *groups = possible;
    return CUDA_SUCCESS;
  }
  *groups = std::min(*groups, possible);
  {
    const std::lock_guard held(family().mutex);
    origin.split = ++family().splits;
  }
  std::fill_n(result, *groups, make(origin, size));
  const unsigned left = all - *groups * size;
  if (rest != nullptr) *rest = left == 0 ? CUdevResource{} : make(origin, left);
  return CUDA_SUCCESS;
}

CUresult describe(const CUdevResource* resources, unsigned count, CUdevResourceDesc* out) {
  Description sum;
  Origin first = {};
  for (unsigned i = 0; i < count; ++i) {
    Origin origin = {};
    if (!read(resources[i], &origin)) return CUDA_ERROR_INVALID_RESOURCE_TYPE;
    if (i == 0) first = origin;
    const bool apart = origin.device != first.device || origin.split != first.split;
    // A whole device, or a context's part, is no sum.
    if (i > 0 && (apart || first.split == 0)) return CUDA_ERROR_INVALID_RESOURCE_CONFIGURATION;
    sum.multiprocessors += resources[i].sm.smCount;
  }
  if (sum.multiprocessors > kMultiprocessors) return CUDA_ERROR_INVALID_RESOURCE_CONFIGURATION;
  sum.device = first.device;
  auto made = std::make_unique<Description>(sum);
  *out = reinterpret_cast<CUdevResourceDesc>(made.get());
  const std::lock_guard held(family().mutex);
  family().descriptions[*out] = std::move(made);
  return CUDA_SUCCESS;
}

bool find_description(CUdevResourceDesc handle, Description* out) {
  const std::lock_guard held(family().mutex);
  const auto found = family().descriptions.find(handle);
  if (found == family().descriptions.end()) return false;
  *out = *found->second;
  return true;
}

}  // namespace vram::sim
