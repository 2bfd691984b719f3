#include "host/limit_text.h"

#include "base/size_text.h"
#include "wire/job_layout.h"

namespace vram::host {
namespace {

// What a bare number may have meant, in the order of how often people mean it.
std::string meanings(const std::string& number) {
  return number + "GiB, " + number + "MiB, " + number + "B or " + number + "%";
}

std::string explain(base::SizeError error, const std::string& text) {
  using base::SizeError;
  const std::string quoted = "'" + text + "'";
  switch (error) {
    case SizeError::kEmpty:
      return "the size is empty; write one like 4GiB or 40%";
    case SizeError::kNotANumber:
      return quoted + " is not a size; write one like 4GiB or 40%";
    case SizeError::kNegative:
      return quoted + " is negative; a limit is at least 1MiB";
    case SizeError::kZero:
      return quoted + " is no memory at all; to hide a card use --gpu, for no limit leave it out";
    case SizeError::kNoUnit:
      return quoted + " has no unit; did you mean " + meanings(text) + "?";
    case SizeError::kUnknownUnit:
      return quoted +
             " has an unknown unit; use KiB, MiB, GiB, TiB (1024), KB, MB, GB, TB (1000), B or %";
    case SizeError::kOverflow:
      return quoted + " is more than any card has; write a size like 4GiB";
    case SizeError::kOverHundred:
      return quoted + " is more than the whole card; use 100% or less";
    case SizeError::kPercentTooFine:
      return quoted + " is too fine; percentages have one decimal at most, like 12.5%";
    case SizeError::kNone:
      break;
  }
  return quoted + " is not a size";
}

Failure bad_size(base::SizeError error, const std::string& text, const std::string& source) {
  return {source + ": " + explain(error, text)};
}

std::vector<std::string> split(const std::string& text, char separator) {
  std::vector<std::string> parts;
  std::size_t from = 0;
  for (;;) {
    const std::size_t to = text.find(separator, from);
    parts.push_back(text.substr(from, to - from));
    if (to == std::string::npos) return parts;
    from = to + 1;
  }
}

Result<Limit> parse_card_limits(const std::string& text, const std::string& source) {
  Limit limit;
  for (const std::string& part : split(text, ',')) {
    const std::size_t equals = part.find('=');
    if (equals == std::string::npos || equals == 0) {
      return Failure{source + ": '" + part +
                     "' names no card; write CARD=SIZE, like 0=4GiB,1=8GiB"};
    }
    const std::string card = part.substr(0, equals);
    for (const Limit::ForCard& known : limit.cards) {
      if (known.card == card) {
        return Failure{source + ": card " + card + " has two limits; give it one"};
      }
    }
    const Result<base::Size> size = parse_size(part.substr(equals + 1), source + ": card " + card);
    if (!size) return size.error();
    limit.cards.push_back({card, *size});
  }
  return limit;
}

}  // namespace

Result<base::Size> parse_size(const std::string& text, const std::string& source) {
  base::Size size;
  const base::SizeError error = base::parse_size(text, &size);
  if (error != base::SizeError::kNone) return bad_size(error, text, source);
  return size;
}

Result<Limit> parse_limit(const std::string& text, const std::string& source) {
  if (text.find('=') != std::string::npos) return parse_card_limits(text, source);
  if (text.find(',') != std::string::npos) {
    return Failure{source + ": '" + text + "' lists sizes without cards; write 0=4GiB,1=8GiB"};
  }
  const Result<base::Size> size = parse_size(text, source);
  if (!size) return size.error();
  Limit limit;
  limit.every = *size;
  return limit;
}

Result<Limit> parse_mib_limit(const std::string& text, const std::string& source) {
  std::uint64_t bytes = 0;
  const base::SizeError error = base::parse_mib(text, &bytes);
  if (error == base::SizeError::kUnknownUnit || error == base::SizeError::kNotANumber) {
    return Failure{source + ": '" + text +
                   "' is not a whole number of MiB; write 4096 for 4GiB, or use VRAM_LIMIT=4GiB"};
  }
  if (error != base::SizeError::kNone) return bad_size(error, text, source);
  Limit limit;
  limit.every = base::Size{base::Size::Kind::kBytes, bytes};
  return limit;
}

std::string format_bytes(std::uint64_t bytes) {
  return bytes == wire::kUnlimited ? "none" : base::format_bytes(bytes).text;
}

std::string format_size(const base::Size& size) {
  if (size.kind == base::Size::Kind::kBytes) return format_bytes(size.amount);
  const std::uint64_t tenths = size.amount % 10;
  return std::to_string(size.amount / 10) + (tenths != 0 ? "." + std::to_string(tenths) : "") + "%";
}

std::string format_limit(const Limit& limit) {
  if (limit.every) return format_size(*limit.every);
  std::string text;
  for (const Limit::ForCard& entry : limit.cards) {
    text += (text.empty() ? "" : ",") + entry.card + "=" + format_size(entry.size);
  }
  return text;
}

std::uint64_t bytes_on(const base::Size& size, std::uint64_t capacity) {
  // 1000 times the capacity of a card stays far below 2^63.
  const std::uint64_t bytes =
      size.kind == base::Size::Kind::kBytes ? size.amount : capacity * size.amount / 1000;
  return bytes / wire::kGranule * wire::kGranule;
}

}  // namespace vram::host
