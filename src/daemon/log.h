#pragma once

// The daemon's log: a line an event, for people: when, what, why.

#include <string>

namespace vram::daemon {

enum class LogLevel : int { kError, kInfo, kDebug };

class Log {
 public:
  explicit Log(LogLevel level) : level_(level) {}
  void error(const std::string& text) const { write(LogLevel::kError, text); }
  void info(const std::string& text) const { write(LogLevel::kInfo, text); }
  void debug(const std::string& text) const { write(LogLevel::kDebug, text); }

 private:
  void write(LogLevel level, const std::string& text) const;

  LogLevel level_;
};

}  // namespace vram::daemon
