#pragma once

// The kinds of pools that make_pool() chooses from, and what their answers to people share.

#include "pool/card.h"

namespace vram::pool {

using MadePool = base::Expected<std::unique_ptr<MemoryPool>, Failure>;

[[nodiscard]] MadePool make_segments_pool(std::unique_ptr<Card> card, const Options& options);
[[nodiscard]] MadePool make_bfc_pool(std::unique_ptr<Card> card, const Options& options);
// Grows always: memory that is pinned is lost to the rest of the machine.
[[nodiscard]] MadePool make_host_pool(std::unique_ptr<Card> card, const Options& options);
[[nodiscard]] MadePool make_driver_async_pool(std::unique_ptr<Card> card, const Options& options);

inline constexpr const char* kCardIsFull =
    "the card has no more: `vram ps` shows who holds its memory";

// What the words of a refusal depend on besides the pool's numbers.
struct Terms {
  std::uint64_t counted;  // the request comes on top of so many bytes, for the limit
  const char* otherwise;  // when it was not the limit
};

// One line: what was asked for, what stood in the way, what to do.
[[nodiscard]] std::string refusal(const Info& info, std::uint64_t bytes, CUresult result,
                                  const Terms& terms);
[[nodiscard]] inline std::string refusal(const Info& info, std::uint64_t bytes, CUresult result) {
  return refusal(info, bytes, result, {info.in_use, kCardIsFull});
}
[[nodiscard]] double fragmentation_of(const Info& info);
[[nodiscard]] std::string report_of(const Info& info, std::uint64_t wanted);

}  // namespace vram::pool
