#include "ledger/devices.h"

#include <string.h>

#include "ledger/word.h"
#include "wire/job_file.h"

namespace vram::ledger {
namespace {

struct Uuid {
  std::uint64_t half[2];
};

Uuid load_uuid(const std::uint8_t* bytes) {
  Uuid uuid{};
  memcpy(&uuid, bytes, sizeof uuid);
  return uuid;
}

// The key claims an entry for a card in one swap, so that two processes that
// meet a card at the same moment cannot both make an account for it. Every bit
// of the UUID counts in every bit of the key (MurmurHash3's finaliser): the
// UUIDs of one host may differ in one bit.
std::uint64_t key_of(const Uuid& uuid) {
  std::uint64_t key = uuid.half[0] ^ (uuid.half[1] * 0x9e3779b97f4a7c15);
  key = (key ^ key >> 33) * 0xff51afd7ed558ccd;
  key = (key ^ key >> 33) * 0xc4ceb9fe1a85ec53;
  key ^= key >> 33;
  return key != 0 ? key : 1;
}

// Whoever finds or makes an entry completes it; all write the same.
void complete(wire::Job& job, wire::DeviceAccount& device, const Uuid& uuid,
              std::uint64_t capacity) {
  std::uint64_t unset = 0;
  if (device.limit.load(std::memory_order_acquire) != unset) return;
  auto* out = reinterpret_cast<std::uint64_t*>(device.uuid);
  __atomic_store_n(&out[0], uuid.half[0], __ATOMIC_RELAXED);
  __atomic_store_n(&out[1], uuid.half[1], __ATOMIC_RELAXED);
  __atomic_store_n(&device.capacity, capacity, __ATOMIC_RELAXED);
  // A process that meets a card does not know NVML's order; whoever does writes it afterwards.
  __atomic_store_n(&device.index, -1, __ATOMIC_RELAXED);
  device.limit.compare_exchange_strong(unset, default_limit(job, capacity));
}

}  // namespace

std::uint32_t find_device(const wire::Job& job, const std::uint8_t* uuid) {
  const std::uint64_t key = key_of(load_uuid(uuid));
  for (std::uint32_t d = 0; d < wire::kMaxDevices; ++d) {
    if (job.device[d].key.load(std::memory_order_acquire) == key) return d;
  }
  return kNoDevice;
}

std::uint64_t default_limit(const wire::Job& job, std::uint64_t capacity) {
  const std::uint64_t permille =
      __atomic_load_n(&job.header.default_limit_permille, __ATOMIC_ACQUIRE);
  if (permille == 0) return at_least_a_byte(job.header.default_limit);
  if (capacity == 0) return 0;
  return at_least_a_byte(capacity * permille / 1000 / wire::kGranule * wire::kGranule);
}

void set_limit(wire::DeviceAccount& device, std::uint64_t bytes) {
  device.limit.store(at_least_a_byte(bytes), std::memory_order_release);
}

std::uint64_t most_granules(const wire::Job& job, std::uint32_t device) {
  const std::uint64_t most =
      job.device[device].limit.load(std::memory_order_relaxed) / wire::kGranule;
  return most < kMaxSum ? most : kMaxSum;
}

std::uint32_t find_or_add_device(wire::Job& job, const std::uint8_t* bytes,
                                 std::uint64_t capacity) {
  const Uuid uuid = load_uuid(bytes);
  const std::uint64_t key = key_of(uuid);
  for (std::uint32_t d = 0; d < wire::kMaxDevices; ++d) {
    std::uint64_t found = job.device[d].key.load(std::memory_order_acquire);
    if (found != 0 && found != key) continue;
    // Before the key says that there is an account to read.
    if (found == 0 && wire::back_device(&job, d) != wire::FileError::kNone) return kNoDevice;
    // In order, so that everybody stops at the same entry.
    if (!job.device[d].key.compare_exchange_strong(found, key) && found != key) continue;
    complete(job, job.device[d], uuid, capacity);
    return d;
  }
  return kNoDevice;
}

}  // namespace vram::ledger
