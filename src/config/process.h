#pragma once

// The one configuration of this process, and how its faults become exceptions.

#include <utility>

#include "config/fault.h"
#include "config/runtime.h"

namespace vram::config {

// Made at the first call and never destroyed: at the end of a process the driver may be gone first.
Runtime& process_runtime();

[[noreturn]] void raise(const Fault& fault);

template <typename T>
T value_or_raise(Result<T> result) {
  if (!result) raise(result.error());
  return std::move(*result);
}
inline void raise_if(const Outcome& outcome) {
  if (!outcome) raise(outcome.error());
}

}  // namespace vram::config
