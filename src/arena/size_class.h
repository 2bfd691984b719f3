#pragma once

// The sizes blocks are rounded to. Up to 32 KiB every multiple of 512 B, above it 64 steps a
// doubling: a block is at most 1.6 % larger than what was asked for, and tensor sizes, which are
// mostly small multiples of powers of two, are not rounded at all.

#include <bit>
#include <cstdint>

namespace vram::arena {

// The driver's own alignment of small allocations; frameworks rely on 256.
inline constexpr std::uint64_t kGranule = 512;
inline constexpr unsigned kStepBits = 6;
inline constexpr std::uint64_t kSteps = std::uint64_t{1} << kStepBits;

// Bytes > 0, at most 2^62. Classes count from 0 in order of size, without holes.
constexpr std::uint32_t class_of(std::uint64_t bytes) {
  const std::uint64_t last = (bytes - 1) / kGranule;  // the number of the last granule
  if (last < kSteps) return static_cast<std::uint32_t>(last);
  const unsigned shift = static_cast<unsigned>(std::bit_width(last)) - 1 - kStepBits;
  return static_cast<std::uint32_t>((std::uint64_t{shift} << kStepBits) + (last >> shift));
}

constexpr std::uint64_t class_bytes(std::uint32_t size_class) {
  if (size_class < 2 * kSteps) return (size_class + 1) * kGranule;
  const unsigned shift = (size_class >> kStepBits) - 1;
  return ((kSteps + (size_class & (kSteps - 1)) + 1) << shift) * kGranule;
}

static_assert(class_of(1) == 0 && class_of(512) == 0 && class_of(513) == 1);
static_assert(class_bytes(class_of(32 << 10)) == 32 << 10);
static_assert(class_bytes(class_of((64 << 10) + 1)) == (64 << 10) + (1 << 10));
static_assert(class_bytes(class_of(3 << 20)) == 3 << 20);

}  // namespace vram::arena
