#pragma once

#include <optional>
#include <string>

#include "trace/recording.h"
#include "wire/job_layout.h"

namespace vram::cli {

// What the job took, in one line: "job k3f9: GPU 0 peak 3.2GiB of 4GiB, 2 requests denied ...".
std::string summarise(const wire::Job& job);

// The same for programs, also in one line. `status`: the exit status. `trace`: of a recording.
std::string summarise_as_json(const wire::Job& job, int status,
                              const std::optional<trace::Summary>& trace);

// What was recorded: "trace F: 120 allocations, peak live 3.2GiB, 61KiB".
std::string summarise_trace(const std::string& path, const trace::Summary& summary);
std::string summarise_trace_as_json(const trace::Summary& summary);

}  // namespace vram::cli
