#pragma once

#include <string>

#include "wire/job_layout.h"

namespace vram::cli {

// What the job took, in one line: "job k3f9: GPU 0 peak 3.2GiB of 4GiB, 2 requests denied ...".
std::string summarise(const wire::Job& job);

// The same for programs, also in one line. `status`: the exit status.
std::string summarise_as_json(const wire::Job& job, int status);

}  // namespace vram::cli
