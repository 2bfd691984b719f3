#pragma once

// The kinds of pools that make_pool() chooses from, and what their answers to people share.

#include "pool/card.h"

namespace vram::pool {

using MadePool = base::Expected<std::unique_ptr<MemoryPool>, Failure>;

[[nodiscard]] MadePool make_segments_pool(std::unique_ptr<Card> card, const Options& options);
[[nodiscard]] MadePool make_driver_async_pool(std::unique_ptr<Card> card, const Options& options);

// One line: what was asked for, what stood in the way, what to do.
[[nodiscard]] std::string refusal(const Info& info, std::uint64_t bytes, CUresult result);
[[nodiscard]] double fragmentation_of(const Info& info);
[[nodiscard]] std::string report_of(const Info& info, std::uint64_t wanted);

}  // namespace vram::pool
