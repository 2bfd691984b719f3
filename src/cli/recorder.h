#pragma once

// Records a run: the log beside the output while the program runs, the trace when it has ended.
//
// The log lies in the folder of the output: that has room, which /dev/shm in a container often has
// not; the trace can take its place without being copied; and it is found there when this command
// was killed.

#include <memory>
#include <string>

#include "cli/child_env.h"
#include "cli/failure.h"
#include "trace/recording.h"
#include "wire/job_layout.h"

namespace vram::cli {

enum class Overwrite : std::uint8_t { kRefuse, kReplace };
enum class Frameworks : std::uint8_t { kSteer, kLeave };

// Whether a trace may be written there. Nothing is made.
Result<Done> check_output(const std::string& output, Overwrite overwrite);

// Makes the trace of a log, and removes the log. On a terminal, long work shows how far it is.
Result<trace::Summary> make_trace(const std::string& log, const std::string& output);

class Recorder {
 public:
  Recorder(std::string output, Overwrite overwrite, Frameworks frameworks)
      : output_(std::move(output)), overwrite_(overwrite), frameworks_(frameworks) {}
  ~Recorder();
  Recorder(const Recorder&) = delete;
  Recorder& operator=(const Recorder&) = delete;

  // Before the program starts: everything that can be refused is refused now.
  Result<Done> prepare(trace::Facts facts);
  // Turns frameworks to allocators that can be seen, and says what stays as the user set it.
  void steer(ChildEnvironment* environment) const;
  void begin(pid_t pid);
  // The program has ended.
  // A recorder that never gets there leaves nothing.
  Result<trace::Summary> finish(const wire::Job& job);

  [[nodiscard]] const std::string& output() const { return output_; }
  [[nodiscard]] std::string log_path() const { return recording_->path(); }

 private:
  std::string output_;
  Overwrite overwrite_;
  Frameworks frameworks_;
  std::unique_ptr<trace::Recording> recording_;
  bool finished_ = false;
};

}  // namespace vram::cli
