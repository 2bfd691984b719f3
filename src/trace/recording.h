#pragma once

// The log of a recording while the program runs: makes it, keeps room in it, closes it, and makes a
// trace of it. What the log is and why: wire/trace_log.h.

#include <sys/types.h>

#include <atomic>
#include <functional>
#include <memory>
#include <string>
#include <thread>

#include "base/expected.h"
#include "trace/facts.h"
#include "wire/trace_file.h"

namespace vram::trace {

class Recording {
 public:
  // A new log. A failure names the file; nothing is left of it.
  static base::Expected<std::unique_ptr<Recording>, std::string> make(const std::string& path,
                                                                      const Facts& facts);
  ~Recording();
  Recording(const Recording&) = delete;
  Recording& operator=(const Recording&) = delete;

  // The program has been started: from now on a thread keeps the log ahead of what is written.
  void begin(pid_t main_process);
  // The program has ended. Whoever lives on is recorded no further.
  void close();

  [[nodiscard]] const std::string& path() const { return path_; }

 private:
  Recording(std::string path, const wire::TraceMapping& mapping, int fd)
      : path_(std::move(path)), mapping_(mapping), fd_(fd) {}
  bool back_more();
  void watch();

  std::string path_;
  wire::TraceMapping mapping_;
  int fd_;
  std::atomic<bool> ending_{false};
  std::thread watcher_;
};

struct Summary {
  std::uint64_t allocations = 0;
  std::uint64_t frees = 0;
  std::uint64_t refused = 0;
  std::uint64_t lost = 0;
  std::uint64_t peak = 0;  // bytes, of all devices together
  std::uint32_t processes = 0;
  std::uint64_t duration_us = 0;
  std::uint64_t file_bytes = 0;
};

// Makes the trace `output` of a log, in whatever state that was left. The output gets its name when
// it is whole; a failure names the file and leaves nothing. `progress` is told the share that is
// done, in percent, at most a few times a second.
base::Expected<Summary, std::string> convert(const std::string& log, const std::string& output,
                                             const std::function<void(int)>& progress);

}  // namespace vram::trace
