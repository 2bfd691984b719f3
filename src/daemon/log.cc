#include "daemon/log.h"

#include <cstdio>
#include <cstdlib>
#include <ctime>

namespace vram::daemon {
namespace {

// systemd's journal has times of its own, and reads the level in front of a line.
bool has_journal() {
  static const bool has = std::getenv("JOURNAL_STREAM") != nullptr;
  return has;
}

const char* mark_of(LogLevel level) {
  switch (level) {
    case LogLevel::kError:
      return "<3>";
    case LogLevel::kInfo:
      return "<6>";
    case LogLevel::kDebug:
      break;
  }
  return "<7>";
}

}  // namespace

void Log::write(LogLevel level, const std::string& text) const {
  if (level > level_) return;
  std::string line = text;
  for (char& c : line) {
    if (static_cast<unsigned char>(c) < 0x20 || c == 0x7f) c = '?';
  }
  if (has_journal()) {
    std::fprintf(stderr, "%s%s\n", mark_of(level), line.c_str());
    return;
  }
  char when[32];
  const std::time_t now = std::time(nullptr);
  std::tm parts{};
  localtime_r(&now, &parts);
  std::strftime(when, sizeof when, "%Y-%m-%d %H:%M:%S", &parts);
  std::fprintf(stderr, "%s vramd: %s\n", when, line.c_str());
}

}  // namespace vram::daemon
