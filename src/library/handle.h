#pragma once

#include <memory>

#include "library/failure.h"

// What a C program holds.
struct vram_pool {
  std::unique_ptr<vram::pool::MemoryPool> pool;
};

namespace vram::library {

inline CUstream stream_of(void* stream) { return static_cast<CUstream>(stream); }
inline CUdeviceptr address_of(const void* address) {
  return reinterpret_cast<CUdeviceptr>(address);
}

// A pool over the process's own driver.
vram_status create(const pool::Options& options, vram_pool** pool);

}  // namespace vram::library
