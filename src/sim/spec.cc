#include "sim/spec.h"

#include <cstdlib>
#include <limits>

namespace vram::sim {
namespace {

constexpr uint64_t kPieceBytes = 2ull << 20;  // the card hands out memory in such pieces
constexpr size_t kNameLimit = 100;            // leaves room for prefix and user in a file name

bool take_number(std::string_view* text, uint64_t* out) {
  uint64_t value = 0;
  size_t digits = 0;
  while (digits < text->size() && (*text)[digits] >= '0' && (*text)[digits] <= '9') {
    if (value > std::numeric_limits<uint32_t>::max()) return false;
    value = value * 10 + static_cast<uint64_t>((*text)[digits] - '0');
    ++digits;
  }
  text->remove_prefix(digits);
  *out = value;
  return digits > 0;
}

// Bytes in one of the unit, 0 when it is none.
uint64_t unit_bytes(std::string_view unit) {
  if (unit.empty()) return 0;
  const std::string_view prefixes = "KMGT";
  const char letter = unit[0] >= 'a' && unit[0] <= 'z' ? static_cast<char>(unit[0] - 32) : unit[0];
  const size_t power = prefixes.find(letter);
  if (power == std::string_view::npos) return 0;
  const std::string_view rest = unit.substr(1);
  const bool decimal = rest == "B";
  if (!decimal && !rest.empty() && rest != "i" && rest != "iB") return 0;
  uint64_t bytes = 1;
  for (size_t i = 0; i <= power; ++i) bytes *= decimal ? 1000 : 1024;
  return bytes;
}

bool parse_group(std::string_view group, std::vector<uint64_t>* out) {
  uint64_t count = 1;
  uint64_t number = 0;
  if (!take_number(&group, &number)) return false;
  if (!group.empty() && group[0] == 'x') {
    count = number;
    group.remove_prefix(1);
    if (!take_number(&group, &number)) return false;
  }
  const uint64_t unit = unit_bytes(group);
  if (unit == 0 || count == 0 || count > kMaxCards) return false;
  if (number > std::numeric_limits<int64_t>::max() / unit) return false;
  const uint64_t bytes = number * unit / kPieceBytes * kPieceBytes;
  if (bytes == 0) return false;
  out->insert(out->end(), count, bytes);
  return out->size() <= kMaxCards;
}

bool is_name(std::string_view name) {
  if (name.empty() || name.size() > kNameLimit || name[0] == '.') return false;
  for (const char c : name) {
    const bool allowed = (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') ||
                         (c >= '0' && c <= '9') || c == '-' || c == '_' || c == '.';
    if (!allowed) return false;
  }
  return true;
}

}  // namespace

SpecStatus parse_cards(std::string_view text, std::vector<uint64_t>* out) {
  if (text.empty()) return SpecStatus::kAbsent;
  std::vector<uint64_t> cards;
  for (;;) {
    const size_t comma = text.find(',');
    if (!parse_group(text.substr(0, comma), &cards)) return SpecStatus::kMalformed;
    if (comma == std::string_view::npos) break;
    text.remove_prefix(comma + 1);
  }
  *out = std::move(cards);
  return SpecStatus::kOk;
}

SpecStatus spec_from_environment(MachineSpec* out) {
  const char* cards = std::getenv("VRAM_SIM");
  const char* name = std::getenv("VRAM_SIM_NAME");
  MachineSpec spec;
  const SpecStatus status = parse_cards(cards == nullptr ? "" : cards, &spec.card_bytes);
  if (status != SpecStatus::kOk) return status;
  if (name != nullptr && name[0] != '\0') {
    spec.name = name;
  } else {
    // One name for all spellings of a specification.
    for (const uint64_t bytes : spec.card_bytes) {
      if (!spec.name.empty()) spec.name += '_';
      spec.name += std::to_string(bytes >> 20);
    }
    if (spec.name.size() > kNameLimit) {
      spec.name = "h" + std::to_string(std::hash<std::string>{}(spec.name));
    }
  }
  if (!is_name(spec.name)) return SpecStatus::kMalformed;
  *out = std::move(spec);
  return SpecStatus::kOk;
}

}  // namespace vram::sim
