#pragma once

// Which job this process belongs to: the one that `vram run` named, or one of its own when only a
// limit is set (VRAM_LIMIT, or PER_PROCESS_GPU_MEMORY in MiB). Decided once when the library is
// loaded, from the environment the process was started with: what the program does to its
// environment later changes nothing.

#include "wire/job_layout.h"

namespace vram::interpose {

// Called once, by each stand-in's constructor. Opens a file when a job is named and does nothing
// else: most programs that run under a job (a shell, a compiler) never call CUDA. Keeps errno.
void find_job();

// In NVML's stand-in instead: the job that the CUDA stand-in found.
void use_job(void* shared);

// Null: none. Mapped for as long as the process lives, and shared with forked children.
wire::Job* job();

// Why there is no job although the environment names one; null when all is well. The string lives
// for ever.
const char* job_failure();

// The environment asks not to refuse when governing fails.
bool allowed_to_fail();

}  // namespace vram::interpose
