#pragma once

// How the C interface tells of failures.

#include <string>

#include "pool/memory_pool.h"
#include "vram/vram.h"

namespace vram::library {

// Remembers the message for the calling thread's vram_last_error(), and returns the status.
vram_status fail(vram_status status, const std::string& message);
vram_status fail(const pool::Failure& failure);

// A body that may run out of host memory. Whatever else is thrown is not ours to stop.
template <typename Body>
vram_status guarded(const Body& body) {
  try {
    return body();
  } catch (const std::exception& error) {
    return fail(VRAM_INTERNAL_ERROR, error.what());
  }
}

}  // namespace vram::library
