#include "cli/context_cost.h"

#include <sys/stat.h>
#include <unistd.h>

#include <cstdio>
#include <fstream>
#include <vector>

namespace vram::cli {
namespace {

// No driver that has cuGetProcAddress makes a context in less; the ones measured took 100 to 550
// MiB.
constexpr std::uint64_t kLeastContextBytes = std::uint64_t{64} << 20;
// The simulated card (src/sim/identity.h) takes this much, whatever was measured.
constexpr std::uint64_t kSimulatedContextBytes = std::uint64_t{518} << 20;
constexpr const char* kSimulatedCard = "vram simulated GPU";
// A figure outside these bounds is a damaged cache.
constexpr std::uint64_t kMostContextBytes = std::uint64_t{4} << 30;

struct Line {
  std::uint64_t bytes = 0;
  std::string driver, card;
};

bool parse(const std::string& text, Line* line) {
  const std::size_t first = text.find('\t');
  if (first == std::string::npos || first == 0 || first > 19) return false;
  const std::size_t second = text.find('\t', first + 1);
  if (second == std::string::npos) return false;
  if (text.find_first_not_of("0123456789") != first) return false;
  line->bytes = std::stoull(text.substr(0, first));
  line->driver = text.substr(first + 1, second - first - 1);
  line->card = text.substr(second + 1);
  return line->bytes >= kLeastContextBytes && line->bytes <= kMostContextBytes;
}

std::vector<Line> read_lines(const std::string& path) {
  std::vector<Line> lines;
  std::ifstream file(path);
  std::string text;
  while (std::getline(file, text)) {
    Line line;
    if (parse(text, &line)) lines.push_back(line);
  }
  return lines;
}

void make_folders(const std::string& path) {
  for (std::size_t slash = path.find('/', 1); slash != std::string::npos;
       slash = path.find('/', slash + 1)) {
    (void)mkdir(path.substr(0, slash).c_str(), 0700);
  }
}

}  // namespace

ContextCost ContextCosts::of(const probe::Card& card) const {
  if (card.name == kSimulatedCard) return {kSimulatedContextBytes, true};
  if (!file_.empty()) {
    for (const Line& line : read_lines(file_)) {
      if (line.driver == driver_ && line.card == card.name) return {line.bytes, true};
    }
  }
  return {kLeastContextBytes, false};
}

void ContextCosts::remember(const std::string& card_name, std::uint64_t bytes) const {
  if (file_.empty() || driver_.empty() || card_name == kSimulatedCard) return;
  if (bytes < kLeastContextBytes || bytes > kMostContextBytes) return;
  std::vector<Line> lines = read_lines(file_);
  for (Line& line : lines) {
    if (line.driver != driver_ || line.card != card_name) continue;
    // A context grows with what the program does to it; the smallest seen is the bound.
    if (line.bytes <= bytes) return;
    line.bytes = 0;
  }
  lines.push_back({bytes, driver_, card_name});
  make_folders(file_);
  // Written aside and renamed, so that a reader sees the old file or the new one.
  const std::string aside = file_ + "." + std::to_string(getpid());
  {
    std::ofstream out(aside);
    for (const Line& line : lines) {
      if (line.bytes != 0) out << line.bytes << '\t' << line.driver << '\t' << line.card << '\n';
    }
    if (!out.flush()) {
      (void)unlink(aside.c_str());
      return;
    }
  }
  if (std::rename(aside.c_str(), file_.c_str()) != 0) (void)unlink(aside.c_str());
}

std::string context_cost_file(const Environment& environment) {
  const auto cache = environment("XDG_CACHE_HOME");
  if (cache && !cache->empty() && cache->front() == '/') return *cache + "/vram/context-bytes";
  const auto home = environment("HOME");
  return home && !home->empty() ? *home + "/.cache/vram/context-bytes" : "";
}

}  // namespace vram::cli
