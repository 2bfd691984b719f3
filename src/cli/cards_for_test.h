#pragma once

// Cards as NVML would tell them, for tests of what the command makes of them.

#include <string>
#include <vector>

#include "probe/nvml.h"

namespace vram::cli {

inline constexpr std::uint64_t kTestGiB = std::uint64_t{1} << 30;

inline probe::Card test_card(int index, const std::string& uuid, std::uint64_t bytes,
                             const std::string& name = "Card") {
  probe::Card card;
  card.index = index;
  card.uuid = uuid;
  (void)probe::parse_uuid(uuid, &card.uuid_bytes);
  card.name = name;
  card.total = bytes;
  card.free = bytes;
  return card;
}

// Three of one model; the UUIDs of the first two begin alike.
inline std::vector<probe::Card> three_cards() {
  return {test_card(0, "GPU-aaaa0000-0000-0000-0000-000000000000", 24 * kTestGiB),
          test_card(1, "GPU-aaaa1111-0000-0000-0000-000000000001", 24 * kTestGiB),
          test_card(2, "GPU-bbbb0000-0000-0000-0000-000000000002", 80 * kTestGiB)};
}

}  // namespace vram::cli
