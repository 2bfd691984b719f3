#pragma once

// Where an arena gets the address ranges that it divides. The arena never touches the memory behind
// an address: a pool over a driver, a mapping of a file or bare arithmetic serve alike.

#include <cstdint>
#include <optional>

namespace vram::arena {

// A range of addresses, bytes.
struct Range {
  std::uint64_t address = 0;
  std::uint64_t bytes = 0;
};

class RegionSource {
 public:
  RegionSource() = default;
  RegionSource(const RegionSource&) = delete;
  RegionSource& operator=(const RegionSource&) = delete;
  virtual ~RegionSource() = default;

  // At least `bytes` bytes, or none when refused. Address and size of what is granted are multiples
  // of 256. `alignment`, a power of two of at least 256, is a wish: the arena also aligns within a
  // region.
  [[nodiscard]] virtual std::optional<Range> allocate(std::uint64_t alignment,
                                                      std::uint64_t bytes) = 0;

  // Takes back what was granted: one range, or several adjoining ones at once when
  // `supports_coalescing`.
  virtual void free(Range range) = 0;

  // Whether an allocation may lie across two adjoining ranges.
  [[nodiscard]] virtual bool supports_coalescing() const = 0;
};

}  // namespace vram::arena
