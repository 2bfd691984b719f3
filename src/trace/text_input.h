#pragma once

// Lines of a file that may be compressed with gzip, in constant memory. A file that ends in the
// middle, because whoever wrote it was killed, has lines up to there.

#include <cstdint>
#include <cstdio>
#include <memory>
#include <string>

#include "base/expected.h"

namespace vram::trace {

class TextInput {
 public:
  // Takes the file over. Also for fmemopen's.
  explicit TextInput(FILE* file);
  ~TextInput();
  TextInput(TextInput&&) noexcept;
  TextInput& operator=(TextInput&&) = delete;

  // The next line, without its end. False: there is none. A failure says what is wrong, and is the
  // last answer.
  base::Expected<bool, std::string> next(std::string* line);

  // The file ended in the middle of its compressed data, or of a line.
  [[nodiscard]] bool truncated() const;
  // Of the last line that next() gave, from 1.
  [[nodiscard]] std::uint64_t number() const;

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace vram::trace
