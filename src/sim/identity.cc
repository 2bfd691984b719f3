#include "sim/identity.h"

#include <cstdio>
#include <string_view>

namespace vram::sim {
namespace {

uint64_t fnv1a(uint64_t hash, std::string_view text) {
  for (const char c : text) hash = (hash ^ static_cast<uint8_t>(c)) * 0x100000001b3ull;
  return hash;
}

}  // namespace

std::array<uint8_t, 16> card_uuid(const std::string& machine, int card) {
  const std::string text = machine + "#" + std::to_string(card);
  const uint64_t halves[2] = {fnv1a(0xcbf29ce484222325ull, text),
                              fnv1a(0x9ae16a3b2f90404full, text)};
  std::array<uint8_t, 16> uuid = {};
  for (size_t i = 0; i < uuid.size(); ++i) {
    uuid[i] = static_cast<uint8_t>(halves[i / 8] >> (8 * (i % 8)));
  }
  uuid[6] = static_cast<uint8_t>((uuid[6] & 0x0f) | 0x50);  // RFC 4122: derived from a name
  uuid[8] = static_cast<uint8_t>((uuid[8] & 0x3f) | 0x80);
  return uuid;
}

std::string uuid_text(const std::array<uint8_t, 16>& uuid) {
  std::string text = "GPU-";
  char digits[3];
  for (size_t i = 0; i < uuid.size(); ++i) {
    if (i == 4 || i == 6 || i == 8 || i == 10) text += '-';
    std::snprintf(digits, sizeof(digits), "%02x", uuid[i]);
    text += digits;
  }
  return text;
}

int card_bus(int card) { return card + 1; }

std::string pci_bus_id(int card, int domain_digits) {
  char text[32];
  std::snprintf(text, sizeof(text), "%0*x:%02x:00.0", domain_digits, 0, card_bus(card));
  return text;
}

int card_at_bus_id(const char* text, int card_count) {
  unsigned domain = 0;
  unsigned bus = 0;
  unsigned device = 0;
  unsigned function = 0;
  const bool full = std::sscanf(text, "%x:%x:%x.%x", &domain, &bus, &device, &function) >= 3;
  if (!full) {
    domain = 0;
    function = 0;
    if (std::sscanf(text, "%x:%x.%x", &bus, &device, &function) < 2) return -1;
  }
  const int card = static_cast<int>(bus) - 1;
  const bool exists = domain == 0 && device == 0 && function == 0 && card >= 0 && card < card_count;
  return exists ? card : -1;
}

}  // namespace vram::sim
