#pragma once

// Why something was refused, inside: the class of the exception that the public function throws,
// and its message.

#include <cstdint>
#include <string>
#include <utility>

#include "base/expected.h"

namespace vram::config {

enum class FaultKind : std::uint8_t {
  kValue,
  kRuntime,
  kInvalidArgument,
  kAlreadyExists,
  kInternal,
  kUnknown,
  kResourceExhausted,
};

struct Fault {
  FaultKind kind;
  std::string message;
};

template <typename T>
using Result = base::Expected<T, Fault>;

struct Done {};
using Outcome = Result<Done>;

}  // namespace vram::config
