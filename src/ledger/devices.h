#pragma once

// Which account a device has in a job. A device is known by its UUID; its
// number differs between processes (CUDA_VISIBLE_DEVICES) and tools.

#include <cstdint>

#include "wire/job_layout.h"

namespace vram::ledger {

inline constexpr std::uint32_t kNoDevice = ~std::uint32_t{0};

// The account of the device with this UUID, or kNoDevice. `uuid` has 16 bytes.
std::uint32_t find_device(const wire::Job& job, const std::uint8_t* uuid);

// The same, made if there is none: with the job's default limit, and `capacity`
// (bytes) as the card's size. kNoDevice: all 64 accounts are taken, or the
// state folder's file system is full. Any number of processes may call at once;
// one that dies in the middle leaves an entry that the next caller completes.
[[nodiscard]] std::uint32_t find_or_add_device(wire::Job& job, const std::uint8_t* uuid,
                                               std::uint64_t capacity);

// The job's limit for a device of this capacity when nobody named it: bytes, or
// kUnlimited. 0: a share of a capacity that is not known; nothing may be taken
// until somebody knows it.
std::uint64_t default_limit(const wire::Job& job, std::uint64_t capacity);

// A stored limit of 0 means "not set yet"; a limit of nothing is one that no
// granule fits.
constexpr std::uint64_t at_least_a_byte(std::uint64_t limit) { return limit != 0 ? limit : 1; }
void set_limit(wire::DeviceAccount& device, std::uint64_t bytes);

// The device's limit in granules; never more than an account can hold.
std::uint64_t most_granules(const wire::Job& job, std::uint32_t device);

}  // namespace vram::ledger
