#include "ledger/devices.h"

#include <string.h>

namespace vram::ledger {
namespace {

// The key claims an entry for a card in one swap, so that two processes that meet a card at the
// same moment cannot both make an account for it.
std::uint64_t key_of(const std::uint8_t* uuid) {
  std::uint64_t half[2];
  memcpy(half, uuid, sizeof half);
  return (half[0] ^ (half[1] << 1 | half[1] >> 63)) | 1;
}

// Whoever finds or makes an entry completes it; all write the same.
void complete(wire::Job& job, wire::DeviceAccount& device, const std::uint8_t* uuid,
              std::uint64_t capacity) {
  std::uint64_t unset = 0;
  if (device.limit.load(std::memory_order_acquire) != unset) return;
  memcpy(device.uuid, uuid, sizeof device.uuid);
  device.capacity = capacity;
  device.limit.compare_exchange_strong(unset, default_limit(job, capacity));
}

}  // namespace

std::uint32_t find_device(const wire::Job& job, const std::uint8_t* uuid) {
  const std::uint64_t key = key_of(uuid);
  for (std::uint32_t d = 0; d < wire::kMaxDevices; ++d) {
    if (job.device[d].key.load(std::memory_order_acquire) == key) return d;
  }
  return kNoDevice;
}

std::uint64_t default_limit(const wire::Job& job, std::uint64_t capacity) {
  if (job.header.default_limit_permille == 0) return job.header.default_limit;
  if (capacity == 0) return wire::kUnlimited;
  return capacity / 1000 * job.header.default_limit_permille / wire::kGranule * wire::kGranule;
}

std::uint32_t find_or_add_device(wire::Job& job, const std::uint8_t* uuid, std::uint64_t capacity) {
  const std::uint64_t key = key_of(uuid);
  for (std::uint32_t d = 0; d < wire::kMaxDevices; ++d) {
    std::uint64_t found = 0;
    // In order, so that everybody stops at the same entry.
    if (!job.device[d].key.compare_exchange_strong(found, key) && found != key) continue;
    complete(job, job.device[d], uuid, capacity);
    return d;
  }
  return kNoDevice;
}

}  // namespace vram::ledger
