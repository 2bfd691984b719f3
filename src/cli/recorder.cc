#include "cli/recorder.h"

#include <sys/stat.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <ctime>

#include "cli/settings.h"
#include "cli/steering.h"
#include "host/install_layout.h"

namespace vram::cli {
namespace {

constexpr const char* kLogEnd = ".raw";

std::string folder_of(const std::string& path) {
  const std::size_t slash = path.rfind('/');
  if (slash == std::string::npos) return ".";
  return slash == 0 ? "/" : path.substr(0, slash);
}

// The folder exists; links in its path are resolved, as the program may change its own folder.
Result<std::string> absolute(const std::string& path) {
  const std::string folder = folder_of(path);
  char* real = realpath(folder.c_str(), nullptr);
  if (real == nullptr) {
    return Failure{"--output: the folder " + folder + " does not exist; make it first"};
  }
  std::string result = real;
  std::free(real);
  const std::size_t slash = path.rfind('/');
  return (result == "/" ? "" : result) + "/" +
         (slash == std::string::npos ? path : path.substr(slash + 1));
}

std::string utc_now() {
  char text[32] = "";
  const std::time_t now = std::time(nullptr);
  std::tm parts{};
  gmtime_r(&now, &parts);
  std::strftime(text, sizeof text, "%Y-%m-%dT%H:%M:%SZ", &parts);
  return text;
}

class Progress {
 public:
  explicit Progress(std::string output) : output_(std::move(output)) {}
  ~Progress() {
    if (shown_) std::fprintf(stderr, "\r\033[K");
  }
  Progress(const Progress&) = delete;
  Progress& operator=(const Progress&) = delete;

  void show(int percent) {
    if (isatty(STDERR_FILENO) == 0) return;
    std::fprintf(stderr, "\r\033[Kvram: writing %s: %d %%", output_.c_str(), percent);
    shown_ = true;
  }

 private:
  std::string output_;
  bool shown_ = false;
};

}  // namespace

Result<Done> check_output(const std::string& output, Overwrite overwrite) {
  struct stat st {};
  if (lstat(output.c_str(), &st) != 0) return Done{};
  if (!S_ISREG(st.st_mode)) {
    return Failure{"--output: " + output + " is there and no ordinary file; choose another"};
  }
  if (overwrite == Overwrite::kReplace) return Done{};
  return Failure{"--output: " + output + " exists; choose another, or replace it with --force"};
}

Result<trace::Summary> make_trace(const std::string& log, const std::string& output) {
  Progress progress(output);
  const auto summary = trace::convert(log, output, [&](int percent) { progress.show(percent); });
  if (!summary) return Failure{summary.error()};
  (void)unlink(log.c_str());
  return *summary;
}

Recorder::~Recorder() {
  if (recording_ != nullptr && !finished_) (void)unlink(recording_->path().c_str());
}

Result<Done> Recorder::prepare(trace::Facts facts) {
  if (const Result<Done> fine = check_output(output_, overwrite_); !fine) return fine.error();
  const Result<std::string> path = absolute(output_);
  if (!path) return path.error();
  const std::string log = *path + kLogEnd;
  if (log.size() >= sizeof wire::JobHeader::trace_path) {
    return Failure{"--output: the path of " + output_ + " is too long; choose a shorter one"};
  }
  if (exists(log)) {
    return Failure{"--output: " + output_ + kLogEnd +
                   " is there, the log of a recording that runs or was interrupted; make a trace "
                   "of it with 'vram trace --recover " +
                   output_ + kLogEnd + " -o " + output_ + "', or remove it"};
  }
  facts.insert(facts.begin(), {"started", utc_now()});
  facts.emplace_back("frameworks", frameworks_ == Frameworks::kSteer ? "steered" : "as-is");
  auto recording = trace::Recording::make(log, facts);
  if (!recording) {
    return Failure{"--output: " + recording.error() + "; choose a folder on a disk with room"};
  }
  recording_ = std::move(*recording);
  return Done{};
}

void Recorder::steer(ChildEnvironment* environment) const {
  if (frameworks_ == Frameworks::kLeave) return;
  for (const std::string& sentence : cli::steer(real_environment(), environment)) {
    std::fprintf(stderr, "vram: %s\n", sentence.c_str());
  }
}

void Recorder::begin(pid_t pid) { recording_->begin(pid); }

Result<trace::Summary> Recorder::finish(const wire::Job& job) {
  finished_ = true;
  recording_->close();
  const std::string log = recording_->path();
  Result<trace::Summary> summary = make_trace(log, output_);
  if (!summary) {
    return Failure{summary.error().message + "; the recording is kept: 'vram trace --recover " +
                   log + " -o FILE' makes a trace of it"};
  }
  if (const std::uint32_t untraced = job.header.untraced.load(); untraced != 0) {
    std::fprintf(stderr,
                 "vram: warning: %u of the processes could not be recorded: they do not see the "
                 "folder of %s, or have no room in their address space\n",
                 untraced, output_.c_str());
  }
  return summary;
}

}  // namespace vram::cli
