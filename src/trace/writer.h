#pragma once

// Writes a trace in the newest version of the format (docs/user/trace-format.md), compressed.
//
// Failures are kept and told by finish(): what is written after one goes nowhere. Threads: one.

#include <cstdint>
#include <memory>
#include <string>

#include "base/expected.h"
#include "trace/event.h"
#include "trace/facts.h"

namespace vram::trace {

class Writer {
 public:
  // Takes the descriptor over. `name` stands for the file in failures.
  static base::Expected<Writer, std::string> to(int fd, const std::string& name);
  ~Writer();
  Writer(Writer&&) noexcept;
  Writer& operator=(Writer&&) = delete;

  // First, once.
  void header(const Facts& facts);
  // The next process begins; its number, from 0.
  std::uint32_t begin_process(const Facts& facts, std::uint64_t time_us);
  // Any event but kProcessBegin. Time never goes back: an earlier one counts as the last.
  void write(const Event& event);

  // The size of the file when all is on it, or why not. Nothing can be written afterwards.
  base::Expected<std::uint64_t, std::string> finish();

 private:
  struct State;
  explicit Writer(std::unique_ptr<State> state);

  std::unique_ptr<State> state_;
};

}  // namespace vram::trace
