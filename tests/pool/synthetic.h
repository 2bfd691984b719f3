#pragma once

// Programs that are hard on a pool, as workloads: each is one thing that makes memory fall apart.
// The same on every machine and in every run.

#include <string>
#include <vector>

#include "replay/workload.h"

namespace vram::replay {

struct Synthetic {
  std::string name;
  Workload workload;
  double bound;  // of peak reserved to peak live, for segments: as measured, and three hundredths
};

[[nodiscard]] std::vector<Synthetic> synthetic_workloads();

}  // namespace vram::replay
