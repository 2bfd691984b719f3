#pragma once

// Sizes as people write them: `4GiB`, `4Gi`, `4G` and `4g` are 4 x 2^30 bytes, `4GB` is 4 x 10^9,
// `40%` is a share of something the caller knows. A number without a unit is an error: NVIDIA's
// tools, Slurm, Docker and the frameworks each mean another unit by it.
//
// Nothing here allocates, throws or needs libstdc++: it also runs inside other people's programs.

#include <cstdint>
#include <string_view>

namespace vram::base {

enum class SizeError : std::uint8_t {
  kNone,
  kEmpty,
  kNotANumber,  // "abc", "NaN", "GiB", "+4GiB", ".5GiB"
  kNegative,
  kZero,            // also what rounds down to no byte at all
  kNoUnit,          // "4"
  kUnknownUnit,     // "4g5", "4 GiB", "4XB"
  kOverflow,        // 2^63 bytes or more
  kOverHundred,     // "140%"
  kPercentTooFine,  // more than one decimal of a per cent
};

struct Size {
  enum class Kind : std::uint8_t { kBytes, kPermille };
  Kind kind = Kind::kBytes;
  std::uint64_t amount = 0;  // bytes, or thousandths
};

// `*out` is set on kNone only. Units in any case; decimals (`1.5GiB`) are cut to whole bytes.
[[nodiscard]] SizeError parse_size(std::string_view text, Size* out);

// The same for a text that must be whole MiB without a unit, as PER_PROCESS_GPU_MEMORY has it.
// Bytes.
[[nodiscard]] SizeError parse_mib(std::string_view text, std::uint64_t* bytes);

}  // namespace vram::base
