#include "interpose/job.h"

#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "wire/job_file.h"

namespace vram::interpose {
namespace {

wire::Job* found = nullptr;
char failure[PATH_MAX + 128] = "";
bool allow = false;

void open_named_job() {
  const char* policy = getenv("VRAM_ON_FAILURE");
  allow = policy != nullptr && strcmp(policy, "allow") == 0;
  const char* path = getenv("VRAM_JOB");
  if (path == nullptr || *path == '\0') return;
  const wire::Mapping mapping = wire::open_job(path, wire::Access::kWrite);
  found = mapping.job;
  if (found == nullptr) {
    snprintf(failure, sizeof failure, "%s: %s", path, wire::describe(mapping.error));
  }
}

}  // namespace

void find_job() {
  const int saved = errno;
  open_named_job();
  errno = saved;
}

wire::Job* job() { return found; }
const char* job_failure() { return failure[0] == '\0' ? nullptr : failure; }
bool allowed_to_fail() {
  return allow || (found != nullptr && found->header.on_failure == wire::OnFailure::kAllow);
}

}  // namespace vram::interpose
