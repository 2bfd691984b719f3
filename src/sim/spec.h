// Which cards the simulated machine has, and what they are called.
//
//   VRAM_SIM       "2x24GiB", "24GiB", "1x24GiB,1x80GiB": what CUDA programs see as total memory
//   VRAM_SIM_NAME  which machine: processes with the same name share its cards; by default derived
//                  from VRAM_SIM, so that equal specifications share. Letters, digits, '-', '_',
//                  '.'.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace vram::sim {

inline constexpr int kMaxCards = 64;

struct MachineSpec {
  std::string name;
  std::vector<uint64_t> card_bytes;
};

enum class SpecStatus { kOk, kAbsent, kMalformed };

// Sizes take the units of the command line: KiB to TiB (also Ki, K, k) by 1024, KB to TB by 1000.
[[nodiscard]] SpecStatus parse_cards(std::string_view text, std::vector<uint64_t>* out);

// The specification in the environment. `*out` is set on kOk only.
[[nodiscard]] SpecStatus spec_from_environment(MachineSpec* out);

}  // namespace vram::sim
