#pragma once

// Which account a device has in a job. A device is known by its UUID; its number differs between
// processes (CUDA_VISIBLE_DEVICES) and tools.

#include <cstdint>

#include "wire/job_layout.h"

namespace vram::ledger {

inline constexpr std::uint32_t kNoDevice = ~std::uint32_t{0};

// The account of the device with this UUID, or kNoDevice. `uuid` has 16 bytes.
std::uint32_t find_device(const wire::Job& job, const std::uint8_t* uuid);

// The same, made if there is none: with the job's default limit, and `capacity` (bytes) as the
// card's size. kNoDevice: all 64 accounts are taken. Any number of processes may call at once; a
// process that dies in the middle leaves an unused entry behind.
[[nodiscard]] std::uint32_t find_or_add_device(wire::Job& job, const std::uint8_t* uuid,
                                               std::uint64_t capacity);

// The job's limit for a device of this capacity when nobody named it: bytes, or kUnlimited.
std::uint64_t default_limit(const wire::Job& job, std::uint64_t capacity);

}  // namespace vram::ledger
