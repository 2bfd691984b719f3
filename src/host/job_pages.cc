#include "host/job_pages.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>

namespace vram::host {

JobPages::~JobPages() {
  if (job_ != nullptr) munmap(job_, kSize);
}

Result<JobPages> open_for_writing(const JobInfo& job) {
  const auto failure = [&](const std::string& why) {
    return Failure{"job " + job.id + " cannot be changed: " + why +
                   "; only its owner and root may"};
  };
  const int fd = open(job.path.c_str(), O_RDWR | O_CLOEXEC | O_NOFOLLOW);
  if (fd < 0) return failure(std::strerror(errno));
  struct stat st {};
  // Listed a moment ago; whoever put another file in its place since is not its owner.
  const bool same = fstat(fd, &st) == 0 && S_ISREG(st.st_mode) && st.st_uid == job.uid &&
                    st.st_size == static_cast<off_t>(sizeof(wire::Job));
  void* at =
      same ? mmap(nullptr, JobPages::kSize, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0) : MAP_FAILED;
  close(fd);
  if (at == MAP_FAILED) return failure("its file is not what it was");
  return JobPages(at);
}

}  // namespace vram::host
