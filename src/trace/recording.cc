#include "trace/recording.h"

#include <fcntl.h>
#include <sys/file.h>
#include <sys/resource.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstring>
#include <ctime>

namespace vram::trace {
namespace {

// 67 million events; the file is sparse, and a process maps that much of its address space.
constexpr std::uint64_t kMostBytes = std::uint64_t{4} << 30;
// Room that is ready beyond what is written, in records: 16 MiB. A program would have to make 13
// million events a second to overtake the watcher.
constexpr std::uint64_t kAhead = (std::uint64_t{16} << 20) / sizeof(wire::TraceRecord);
constexpr auto kPeriod = std::chrono::milliseconds(20);

std::uint64_t largest_file() {
  rlimit limit{};
  if (getrlimit(RLIMIT_FSIZE, &limit) != 0) return kMostBytes;
  return std::min<std::uint64_t>(kMostBytes, limit.rlim_cur);
}

std::uint64_t now_ns() {
  timespec now{};
  clock_gettime(CLOCK_MONOTONIC, &now);
  return static_cast<std::uint64_t>(now.tv_sec) * 1'000'000'000 +
         static_cast<std::uint64_t>(now.tv_nsec);
}

std::string failure_of(const std::string& path, wire::FileError error) {
  const std::string why = error == wire::FileError::kSystem || error == wire::FileError::kNotFound
                              ? std::strerror(errno)
                              : wire::describe(error);
  return path + ": " + why;
}

}  // namespace

base::Expected<std::unique_ptr<Recording>, std::string> Recording::make(const std::string& path,
                                                                        const Facts& facts) {
  const std::uint64_t bytes = largest_file() / 4096 * 4096;
  if (bytes < sizeof(wire::TraceLog))
    return path + ": the limit of file sizes is too low (ulimit -f)";
  const wire::TraceMapping mapping = wire::create_trace(path.c_str(), bytes);
  if (mapping.log == nullptr) return failure_of(path, mapping.error);
  const int fd = open(path.c_str(), O_RDWR | O_CLOEXEC | O_NOFOLLOW);
  // Whoever would make a trace of it sees that it is not finished.
  if (fd >= 0) (void)flock(fd, LOCK_EX | LOCK_NB);
  std::unique_ptr<Recording> recording(new Recording(path, mapping, fd));
  wire::TraceHeader& header = mapping.log->header;
  const std::string text = format_facts(facts).substr(0, sizeof header.facts);
  std::memcpy(header.facts, text.data(), text.size());
  header.facts_bytes = static_cast<std::uint32_t>(text.size());
  header.start_ns = now_ns();
  if (fd < 0 || !recording->back_more()) {
    const std::string failure = path + ": " + std::strerror(errno);
    (void)unlink(path.c_str());
    return failure;
  }
  return recording;
}

Recording::~Recording() {
  close();
  wire::unmap_trace(mapping_);
  if (fd_ >= 0) ::close(fd_);
}

void Recording::begin(pid_t main_process) {
  mapping_.log->header.main_pid = main_process;
  watcher_ = std::thread([this] { watch(); });
}

void Recording::close() {
  if (!watcher_.joinable()) return;
  ending_.store(true);
  watcher_.join();
  wire::TraceHeader& header = mapping_.log->header;
  header.records = header.backed.exchange(0);
  header.end_ns = now_ns();
}

// False: the disk or the file is full.
bool Recording::back_more() {
  wire::TraceHeader& header = mapping_.log->header;
  const std::uint64_t backed = header.backed.load();
  const std::uint64_t wanted = std::min(header.next.load() + 2 * kAhead, header.capacity);
  if (wanted <= backed) return false;
  const std::uint64_t from = wire::kTraceRecords + backed * sizeof(wire::TraceRecord);
  const std::uint64_t more = (wanted - backed) * sizeof(wire::TraceRecord);
  const int error = posix_fallocate(fd_, static_cast<off_t>(from), static_cast<off_t>(more));
  errno = error;
  if (error != 0) return false;
  header.backed.store(wanted);
  return true;
}

void Recording::watch() {
  const wire::TraceHeader& header = mapping_.log->header;
  while (!ending_.load()) {
    if (header.next.load() + kAhead > header.backed.load() && !back_more()) return;
    std::this_thread::sleep_for(kPeriod);
  }
}

}  // namespace vram::trace
