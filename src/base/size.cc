#include "base/size.h"

#include <cstddef>

namespace vram::base {
namespace {

__extension__ typedef unsigned __int128 Wide;

constexpr std::uint64_t kMaxBytes = (std::uint64_t{1} << 63) - 1;
// Enough for every byte count below 2^63 and for six decimals, and no product overflows 128 bits.
constexpr int kMaxDigits = 19;

bool is_digit(char c) { return c >= '0' && c <= '9'; }
char lower(char c) { return c >= 'A' && c <= 'Z' ? static_cast<char>(c - 'A' + 'a') : c; }

struct Decimal {
  std::uint64_t digits = 0;  // without the point
  std::uint64_t scale = 1;   // ten to the number of decimals
};

// Takes leading digits off `text`, up to what fits. False: too many of them.
bool take_digits(std::string_view* text, Decimal* number, int* room, bool decimals) {
  while (!text->empty() && is_digit(text->front())) {
    const bool leading_zero = number->digits == 0 && text->front() == '0' && !decimals;
    if (!leading_zero && (*room)-- == 0) return false;
    number->digits = number->digits * 10 + static_cast<std::uint64_t>(text->front() - '0');
    if (decimals) number->scale *= 10;
    text->remove_prefix(1);
  }
  return true;
}

SizeError take_number(std::string_view* text, Decimal* number) {
  if (text->empty()) return SizeError::kEmpty;
  if (text->front() == '-') return SizeError::kNegative;
  if (!is_digit(text->front())) return SizeError::kNotANumber;
  int room = kMaxDigits;
  if (!take_digits(text, number, &room, false)) return SizeError::kOverflow;
  if (text->empty() || text->front() != '.') return SizeError::kNone;
  text->remove_prefix(1);
  if (text->empty() || !is_digit(text->front())) return SizeError::kNotANumber;
  return take_digits(text, number, &room, true) ? SizeError::kNone : SizeError::kOverflow;
}

// Bytes in one of the unit; 0: no such unit.
std::uint64_t unit_bytes(std::string_view unit) {
  if (unit.size() == 1 && lower(unit[0]) == 'b') return 1;
  constexpr std::string_view prefixes = "kmgt";
  const std::size_t power = prefixes.find(lower(unit[0]));
  if (power == std::string_view::npos || unit.size() > 3) return 0;
  const bool decimal = unit.size() == 2 && lower(unit[1]) == 'b';
  const bool binary = unit.size() == 1 || (unit.size() == 2 && lower(unit[1]) == 'i') ||
                      (unit.size() == 3 && lower(unit[1]) == 'i' && lower(unit[2]) == 'b');
  if (!decimal && !binary) return 0;
  std::uint64_t bytes = 1;
  for (std::size_t i = 0; i <= power; ++i) bytes *= decimal ? 1000 : 1024;
  return bytes;
}

SizeError to_permille(const Decimal& number, Size* out) {
  const Wide thousandths = Wide{number.digits} * 10;
  if (thousandths > Wide{1000} * number.scale) return SizeError::kOverHundred;
  if (thousandths % number.scale != 0) return SizeError::kPercentTooFine;
  if (thousandths == 0) return SizeError::kZero;
  *out = {Size::Kind::kPermille, static_cast<std::uint64_t>(thousandths / number.scale)};
  return SizeError::kNone;
}

SizeError to_bytes(const Decimal& number, std::uint64_t unit, std::uint64_t* out) {
  const Wide bytes = Wide{number.digits} * unit / number.scale;
  if (bytes > kMaxBytes) return SizeError::kOverflow;
  if (bytes == 0) return SizeError::kZero;
  *out = static_cast<std::uint64_t>(bytes);
  return SizeError::kNone;
}

}  // namespace

SizeError parse_size(std::string_view text, Size* out) {
  Decimal number;
  if (const SizeError error = take_number(&text, &number); error != SizeError::kNone) return error;
  if (text.empty()) return number.digits == 0 ? SizeError::kZero : SizeError::kNoUnit;
  if (text == "%") return to_permille(number, out);
  const std::uint64_t unit = unit_bytes(text);
  if (unit == 0) return SizeError::kUnknownUnit;
  std::uint64_t bytes = 0;
  const SizeError error = to_bytes(number, unit, &bytes);
  if (error == SizeError::kNone) *out = {Size::Kind::kBytes, bytes};
  return error;
}

SizeError parse_mib(std::string_view text, std::uint64_t* bytes) {
  Decimal number;
  if (const SizeError error = take_number(&text, &number); error != SizeError::kNone) return error;
  if (!text.empty()) return SizeError::kUnknownUnit;
  if (number.scale != 1) return SizeError::kNotANumber;
  return to_bytes(number, std::uint64_t{1} << 20, bytes);
}

}  // namespace vram::base
