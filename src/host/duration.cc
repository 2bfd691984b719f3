#include "host/duration.h"

#include <cstdio>
#include <cstdlib>

namespace vram::host {
namespace {

struct Unit {
  const char* name;
  double ms;
};
constexpr Unit kUnits[] = {{"ms", 1}, {"s", 1e3}, {"min", 60e3}, {"h", 3600e3}};

// Whoever waits longer than a day wants something else than to wait.
constexpr double kMost_ms = 24 * 3600e3;

}  // namespace

Result<std::uint64_t> parse_duration(const std::string& text, const std::string& source) {
  const auto wrong = [&](const std::string& why) {
    return Failure{source + ": '" + text + "' " + why};
  };
  const std::size_t digits = text.find_first_not_of("0123456789.");
  const std::string number = text.substr(0, digits);
  char* end = nullptr;
  const double amount = std::strtod(number.c_str(), &end);
  if (number.empty() || *end != '\0') return wrong("is not a time; write one like 60s");
  if (digits == std::string::npos) {
    return wrong("has no unit; did you mean " + text + "s or " + text + "min?");
  }
  for (const Unit& unit : kUnits) {
    if (text.substr(digits) != unit.name) continue;
    const double ms = amount * unit.ms;
    if (ms < 1) return wrong("is no time at all; write one like 60s");
    if (ms > kMost_ms) return wrong("is too long; use 24h or less");
    return static_cast<std::uint64_t>(ms);
  }
  return wrong("has an unknown unit; use ms, s, min or h");
}

std::string format_us(std::uint64_t us) {
  char text[32];
  if (us < 10'000) {
    std::snprintf(text, sizeof text, "%.1fms", static_cast<double>(us) / 1e3);
  } else {
    std::snprintf(text, sizeof text, "%.2fs", static_cast<double>(us) / 1e6);
  }
  return text;
}

std::string format_ms(std::uint64_t ms) {
  constexpr std::uint64_t kSecond = 1000, kMinute = 60 * kSecond, kHour = 60 * kMinute;
  if (ms % kHour == 0) return std::to_string(ms / kHour) + "h";
  if (ms % kMinute == 0) return std::to_string(ms / kMinute) + "min";
  if (ms % kSecond == 0) return std::to_string(ms / kSecond) + "s";
  return std::to_string(ms) + "ms";
}

std::string say_ms(std::uint64_t ms) {
  const std::uint64_t s = ms / 1000;
  if (s < 120) return std::to_string(s) + " s";
  constexpr std::uint64_t kMinute = 60;
  constexpr std::uint64_t kHour = 60 * kMinute;
  constexpr std::uint64_t kDay = 24 * kHour;
  if (s < 2 * kHour) return std::to_string(s / kMinute) + " min";
  if (s < 2 * kDay) return std::to_string(s / kHour) + " h";
  return std::to_string(s / kDay) + " days";
}

}  // namespace vram::host
