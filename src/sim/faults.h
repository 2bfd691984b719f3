// Injected faults: VRAM_SIM_FAULTS makes chosen calls fail.
//
//   VRAM_SIM_FAULTS="cuMemAlloc_v2:3=2,cuMemCreate:every=10=999"
//
// fails the third call of cuMemAlloc_v2 with CUDA_ERROR_OUT_OF_MEMORY and every tenth of
// cuMemCreate with CUDA_ERROR_UNKNOWN. Calls are counted by exported symbol and process. Read once,
// at the first call of the process; a malformed list makes cuInit fail, so that a test cannot pass
// by a typo.
#pragma once

#include <cuda.h>

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace vram::sim {

struct Fault {
  std::string name;
  uint64_t number = 1;  // the n-th call, or every n-th
  bool repeats = false;
  CUresult result = CUDA_ERROR_UNKNOWN;
};

// False when `text` does not follow the grammar above; `*out` is then untouched.
[[nodiscard]] bool parse_faults(std::string_view text, std::vector<Fault>* out);

// The faults of this process, from the environment.
[[nodiscard]] const std::vector<Fault>& injected_faults();
[[nodiscard]] bool faults_are_malformed();

}  // namespace vram::sim
