#include "trace/facts.h"

namespace vram::trace {
namespace {

constexpr char kHex[] = "0123456789ABCDEF";

bool is_plain(unsigned char c) { return c > 0x20 && c != 0x7f && c != '%'; }

std::optional<unsigned> hex_digit(char c) {
  if (c >= '0' && c <= '9') return c - '0';
  if (c >= 'A' && c <= 'F') return c - 'A' + 10;
  if (c >= 'a' && c <= 'f') return c - 'a' + 10;
  return std::nullopt;
}

}  // namespace

std::string format_facts(const Facts& facts) {
  std::string text;
  for (const auto& [name, value] : facts) {
    text += (text.empty() ? "" : " ") + name + "=";
    for (const char c : value) {
      const auto byte = static_cast<unsigned char>(c);
      if (is_plain(byte)) {
        text += c;
      } else {
        text += {'%', kHex[byte >> 4], kHex[byte & 15]};
      }
    }
  }
  return text;
}

std::optional<std::pair<std::string, std::string>> parse_fact(const std::string& word) {
  const std::size_t equals = word.find('=');
  if (equals == std::string::npos || equals == 0) return std::nullopt;
  std::string value;
  for (std::size_t i = equals + 1; i < word.size(); ++i) {
    if (word[i] != '%') {
      value += word[i];
      continue;
    }
    if (i + 2 >= word.size()) return std::nullopt;
    const auto high = hex_digit(word[i + 1]);
    const auto low = hex_digit(word[i + 2]);
    if (!high || !low) return std::nullopt;
    value += static_cast<char>(*high << 4 | *low);
    i += 2;
  }
  return std::pair{word.substr(0, equals), value};
}

std::optional<std::string> find_fact(const Facts& facts, const std::string& name) {
  for (const auto& [known, value] : facts) {
    if (known == name) return value;
  }
  return std::nullopt;
}

}  // namespace vram::trace
