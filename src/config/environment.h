#pragma once

// What environment variables say of GPU memory.
//
// Strict: a value that means nothing is InvalidArgument. Compat: TensorFlow's variables are ignored
// then, with a diagnostic where TensorFlow logs; PER_PROCESS_GPU_MEMORY, which is not TensorFlow's,
// is an error in both: a cap that got lost must not mean "no cap".

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "config/fault.h"
#include "config/host.h"
#include "vram/config.h"

namespace vram::config {

struct Environment {
  std::optional<bool> force_growth;            // TF_FORCE_GPU_ALLOW_GROWTH
  bool driver_async = false;                   // TF_GPU_ALLOCATOR=cuda_malloc_async
  std::optional<std::int64_t> system_mib;      // TF_DEVICE_MIN_SYS_MEMORY_IN_MB
  bool garbage_collection = true;              // TF_ENABLE_GPU_GARBAGE_COLLECTION
  std::optional<std::uint64_t> device_limit;   // TF_PER_DEVICE_MEMORY_LIMIT_MB, bytes
  bool unified = false;                        // TF_FORCE_UNIFIED_MEMORY
  std::uint64_t host_limit = 0;                // TF_GPU_HOST_MEM_LIMIT_IN_MB, bytes
  std::optional<std::int64_t> preallocate;     // TF_CUDA_MALLOC_ASYNC_SUPPORTED_PREALLOC; -1: all
  std::optional<std::uint64_t> process_limit;  // PER_PROCESS_GPU_MEMORY, bytes of each card
  std::vector<int> gpu_ids;                    // GPU_ID; empty: all
  std::vector<std::string> diagnostics;

  // The lower of the two caps of a card.
  [[nodiscard]] std::optional<std::uint64_t> card_cap() const;
};

Result<Environment> read_environment(const Variable& variable, Mode mode);

// VRAM_CONFIG_MODE; InvalidArgument for what is neither.
Result<Mode> mode_of_environment(const Variable& variable);

}  // namespace vram::config
