#include "cli/curve.h"

#include "cli/failure.h"

#include <unistd.h>

#include <algorithm>
#include <cstdlib>

#include "host/limit_text.h"

namespace vram::cli {
namespace {

constexpr std::size_t kRows = 12;
constexpr std::size_t kLabel = 10;  // "1023.9MiB" and a space
constexpr std::size_t kMostColumns = 100;
constexpr std::size_t kLeastColumns = 20;
constexpr const char* kLive = "\x1b[32m";
constexpr const char* kReserved = "\x1b[33m";
constexpr const char* kPlain = "\x1b[0m";

std::string label(const std::string& text) {
  return std::string(kLabel - 1 - std::min(kLabel - 1, text.size()), ' ') + text + " ";
}

// Rows that are filled for so many bytes; anything above nothing shows.
std::size_t height(std::uint64_t bytes, std::uint64_t top) {
  const double share = static_cast<double>(bytes) / static_cast<double>(top);
  const auto rows = static_cast<std::size_t>(share * kRows + 0.5);
  return bytes > 0 ? std::max<std::size_t>(rows, 1) : 0;
}

// Runs of equal characters, each in its colour.
std::string coloured(const std::string& row) {
  std::string text;
  char last = ' ';
  for (const char c : row) {
    if (c != last) text += c == '#' ? kLive : c == ':' ? kReserved : kPlain;
    text += c;
    last = c;
  }
  return last == ' ' ? text : text + kPlain;
}

std::string paint(const std::string& row, Colour colour) {
  return colour == Colour::kNone ? row : coloured(row);
}

}  // namespace

std::size_t curve_columns(std::size_t terminal_width) {
  if (terminal_width < kLabel + 1 + kLeastColumns) return 0;
  return std::min(kMostColumns, terminal_width - kLabel - 1);
}

Colour terminal_colour() {
  const char* no_colour = std::getenv("NO_COLOR");
  if (no_colour != nullptr && *no_colour != '\0') return Colour::kNone;
  const char* terminal = std::getenv("TERM");
  const bool dumb = terminal == nullptr || std::string(terminal) == "dumb";
  return dumb || isatty(STDOUT_FILENO) == 0 ? Colour::kNone : Colour::kSixteen;
}

std::string draw_curve(const std::vector<replay::Sample>& samples, std::uint64_t events,
                       Colour colour) {
  std::uint64_t top = 1;
  for (const replay::Sample& sample : samples) top = std::max({top, sample.live, sample.reserved});
  std::string text;
  for (std::size_t row = kRows; row > 0; --row) {
    std::string cells;
    for (const replay::Sample& sample : samples) {
      const char reserved = height(sample.reserved, top) >= row ? ':' : ' ';
      cells += height(sample.live, top) >= row ? '#' : reserved;
    }
    cells.erase(cells.find_last_not_of(' ') + 1);
    text += label(row == kRows ? format_bytes(top) : "") + "|" + paint(cells, colour) + "\n";
  }
  text += label("0") + "+" + std::string(samples.size(), '-') + "\n";
  const std::string legend = "# live  : reserved";
  const std::string end = std::to_string(events) + " events";
  const std::size_t used = legend.size() + end.size();
  text += label("") + " " + paint("#", colour) + " live  " + paint(":", colour) + " reserved" +
          std::string(samples.size() > used ? samples.size() - used : 2, ' ') + end + "\n";
  return text;
}

}  // namespace vram::cli
