#pragma once

// One piece of device memory that a process holds under an address or a handle, in the 64 bits of a
// table's value: granules (39 bits), device (6), context (12), kind (3).

#include <cstdint>

#include "interpose/process.h"
#include "wire/job_layout.h"

namespace vram::interpose {

enum class Kind : std::uint64_t {
  kWhole = 0,  // charged by itself
  kSmall,      // carved from a slab that is charged
  kManaged,
  kArray,
  kOpened,    // from another process, charged there
  kExternal,  // imported from another interface, charged
};

struct Block {
  std::uint64_t bytes;  // charged
  std::uint32_t device;
  std::uint32_t context;
  Kind kind;
};

inline constexpr std::uint64_t kGranulesMask = (std::uint64_t{1} << 39) - 1;

inline std::uint64_t pack(const Block& b) {
  return b.bytes / wire::kGranule | std::uint64_t{b.device} << 39 | std::uint64_t{b.context} << 45 |
         static_cast<std::uint64_t>(b.kind) << 57;
}

inline Block unpack_block(std::uint64_t value) {
  return {(value & kGranulesMask) * wire::kGranule, static_cast<std::uint32_t>(value >> 39 & 63),
          static_cast<std::uint32_t>(value >> 45 & (kMaxContexts - 1)),
          static_cast<Kind>(value >> 57 & 7)};
}

// What a block of this kind counts as for whoever looks.
inline wire::Part part_of(Kind kind) {
  return kind == Kind::kManaged ? wire::Part::kManaged : wire::Part::kBlocks;
}

// Gives up what is charged for an array that is gone; see arrays.cc.
void forget_array(const Block& block);

// Gives up what the process had from others in a context that is gone.
void forget_imports(std::uint32_t device, std::uint32_t context);

// Gives up what the process held in a context that is gone. The driver freed it already.
void forget_context(std::uint32_t device, std::uint32_t context);

}  // namespace vram::interpose
