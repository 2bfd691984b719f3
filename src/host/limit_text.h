#pragma once

// Limits as people write them, and byte counts as people read them.

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "base/size.h"
#include "host/failure.h"

namespace vram::host {

// "4GiB", "40%": for every card; "0=4GiB,GPU-6d9d=40%": for the cards named, by their number in
// `vram devices` or the beginning of their UUID.
struct Limit {
  struct ForCard {
    std::string card;
    base::Size size;
  };
  std::optional<base::Size> every;
  std::vector<ForCard> cards;

  bool empty() const { return !every && cards.empty(); }
};

// `source` is named in messages: "-m", "VRAM_LIMIT", "config.toml:3: limit".
Result<Limit> parse_limit(const std::string& text, const std::string& source);
Result<base::Size> parse_size(const std::string& text, const std::string& source);

// PER_PROCESS_GPU_MEMORY: whole MiB without a unit.
Result<Limit> parse_mib_limit(const std::string& text, const std::string& source);

// "4GiB", "518MiB", "23.4GiB", "512B": exact when whole, else one decimal. Can be typed back.
std::string format_bytes(std::uint64_t bytes);
std::string format_size(const base::Size& size);
std::string format_limit(const Limit& limit);

// Bytes of a size on a card of this capacity, in whole granules of the ledger.
std::uint64_t bytes_on(const base::Size& size, std::uint64_t capacity);

}  // namespace vram::host
