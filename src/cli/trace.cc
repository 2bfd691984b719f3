// `vram trace`: a run that is recorded.

#include "cli/trace.h"

#include <fcntl.h>
#include <sys/file.h>
#include <unistd.h>

#include <cstdio>

#include "cli/recorder.h"
#include "cli/run.h"
#include "cli/summary.h"

namespace vram::cli {
namespace {

// Whoever records holds the log.
bool is_in_use(const std::string& log) {
  const int fd = open(log.c_str(), O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK);
  if (fd < 0) return false;
  const bool free = flock(fd, LOCK_EX | LOCK_NB) == 0;
  close(fd);
  return !free;
}

Result<int> recover(const TraceOptions& options, const std::string& log, Overwrite overwrite) {
  if (!options.run.command.empty()) {
    return Failure{"trace: --recover starts no program; leave '" + options.run.command.front() +
                   "' out"};
  }
  if (const Result<Done> fine = check_output(options.output, overwrite); !fine) {
    return fine.error();
  }
  if (is_in_use(log)) return Failure{"--recover: " + log + " is still being recorded"};
  const Result<trace::Summary> summary = make_trace(log, options.output);
  if (!summary) return Failure{"--recover: " + summary.error().message};
  if (options.run.json) {
    std::fprintf(stderr, "%s\n", summarise_trace_as_json(*summary).c_str());
  } else if (!options.run.flags.quiet) {
    std::fprintf(stderr, "vram: %s\n", summarise_trace(options.output, *summary).c_str());
  }
  return 0;
}

}  // namespace

Result<int> trace(const TraceOptions& options) {
  const Overwrite overwrite = options.force ? Overwrite::kReplace : Overwrite::kRefuse;
  if (options.recover) return recover(options, *options.recover, overwrite);
  if (options.run.command.empty()) {
    return Failure{"trace: there is no command to run; write: vram trace -o FILE -- CMD ARG..."};
  }
  if (options.output.empty()) return Failure{"--output: it is empty; name a file"};
  Recorder recorder(options.output, overwrite,
                    options.as_is ? Frameworks::kLeave : Frameworks::kSteer);
  return run(options.run, &recorder);
}

}  // namespace vram::cli
