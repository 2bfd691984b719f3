#include "interpose/job.h"

#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/size.h"
#include "wire/job_file.h"

namespace vram::interpose {
namespace {

wire::Job* found = nullptr;
char failure[PATH_MAX + 128] = "";
bool allow = false;

bool set(const char* name, const char** text) {
  *text = getenv(name);
  return *text != nullptr && **text != '\0';
}

// A limit in the environment of a program that was not started by `vram run` holds for this process
// and what it forks. What the text means is the command's rule (src/base/size.h); a text without a
// meaning is a failure, and not "no limit".
void make_own_job() {
  const char* text = nullptr;
  base::Size size{};
  base::SizeError error = base::SizeError::kNone;
  const char* name = "VRAM_LIMIT";
  const char* example = "4GiB or 40%";
  if (set(name, &text)) {
    error = base::parse_size(text, &size);
  } else if (name = "PER_PROCESS_GPU_MEMORY"; set(name, &text)) {
    error = base::parse_mib(text, &size.amount);
    example = "4096 (MiB)";
  } else {
    return;
  }
  if (error != base::SizeError::kNone) {
    snprintf(failure, sizeof failure, "%s: '%s' is not a size, like %s", name, text, example);
    return;
  }
  const wire::Mapping mapping = wire::make_private_job();
  found = mapping.job;
  if (found == nullptr) {
    snprintf(failure, sizeof failure, "%s: no memory for the account", name);
  } else if (size.kind == base::Size::Kind::kPermille) {
    found->header.default_limit_permille = static_cast<std::uint32_t>(size.amount);
  } else {
    found->header.default_limit = size.amount;
  }
}

void open_named_job() {
  const char* policy = getenv("VRAM_ON_FAILURE");
  allow = policy != nullptr && strcmp(policy, "allow") == 0;
  const char* path = getenv("VRAM_JOB");
  if (path == nullptr || *path == '\0') {
    make_own_job();
    return;
  }
  const wire::Mapping mapping = wire::open_job(path, wire::Access::kWrite);
  found = mapping.job;
  if (found == nullptr) {
    snprintf(failure, sizeof failure, "%s: %s", path, wire::describe(mapping.error));
  }
}

}  // namespace

void find_job() {
  if (found != nullptr) return;
  const int saved = errno;
  open_named_job();
  errno = saved;
}

void use_job(void* shared) { found = static_cast<wire::Job*>(shared); }

wire::Job* job() { return found; }
const char* job_failure() { return failure[0] == '\0' ? nullptr : failure; }
bool allowed_to_fail() {
  return allow || (found != nullptr && found->header.on_failure == wire::OnFailure::kAllow);
}

}  // namespace vram::interpose
