#include "wire/job_file.h"

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>

#include "wire/trusted_file.h"

namespace vram::wire {
namespace {

constexpr int kPathEnd = static_cast<int>(kPathSize) - 1;

Mapping map(int fd, int protection) {
  void* at = mmap(nullptr, sizeof(Job), protection, MAP_SHARED, fd, 0);
  if (at == MAP_FAILED) return {nullptr, FileError::kSystem};
  return {static_cast<Job*>(at), FileError::kNone};
}

FileError check(const Job& job) {
  if (__atomic_load_n(&job.header.magic, __ATOMIC_ACQUIRE) != kJobMagic) return FileError::kNotAJob;
  if (job.header.version != kJobVersion) return FileError::kVersion;
  if (job.header.file_bytes != sizeof(Job)) return FileError::kVersion;
  return FileError::kNone;
}

FileError populate(void* at, std::size_t size) {
#ifdef MADV_POPULATE_WRITE
  constexpr int kPopulate = MADV_POPULATE_WRITE;
#else
  constexpr int kPopulate = 23;
#endif
  const auto page = static_cast<std::uintptr_t>(sysconf(_SC_PAGESIZE));
  const auto from = reinterpret_cast<std::uintptr_t>(at) & ~(page - 1);
  const auto to = (reinterpret_cast<std::uintptr_t>(at) + size + page - 1) & ~(page - 1);
  if (madvise(reinterpret_cast<void*>(from), to - from, kPopulate) == 0) return FileError::kNone;
  // Before Linux 5.14 the call is unknown; there the pages come at first use.
  return errno == EINVAL ? FileError::kNone : FileError::kNoSpace;
}

void write_header(Job* job) {
  job->header.version = kJobVersion;
  job->header.header_bytes = sizeof(JobHeader);
  job->header.file_bytes = sizeof(Job);
  job->header.owner_uid = geteuid();
  job->header.default_limit = kUnlimited;
  // Last: a file without the mark is not a job yet.
  __atomic_store_n(&job->header.magic, kJobMagic, __ATOMIC_RELEASE);
}

}  // namespace

FileError from_errno() {
  switch (errno) {
    case ENOENT:
      return FileError::kNotFound;
    case ELOOP:
      return FileError::kNotTrusted;
    case EEXIST:
      return FileError::kExists;
    case ENOSPC:
      return FileError::kNoSpace;
    default:
      return FileError::kSystem;
  }
}

const char* describe(FileError error) {
  switch (error) {
    case FileError::kNone:
      return "no error";
    case FileError::kNotFound:
      return "there is no such job file";
    case FileError::kNotTrusted:
      return "it belongs to another user, is writable by others, or is a link";
    case FileError::kNotAJob:
      return "it is not a job file";
    case FileError::kVersion:
      return "it was made by another version of vram";
    case FileError::kExists:
      return "it exists already";
    case FileError::kNoSpace:
      return "the file system is full";
    case FileError::kSystem:
      break;
  }
  return "the system refused it";
}

void state_folder(char* out) {
  const char* chosen = getenv("VRAM_STATE_DIR");
  if (chosen != nullptr && chosen[0] == '/') {
    const int length = snprintf(out, kPathSize, "%s", chosen);
    // A slash at the end would follow a link that the folder's check has to
    // see.
    for (int end = length < kPathEnd ? length : kPathEnd; end > 1 && out[end - 1] == '/';) {
      out[--end] = '\0';
    }
  } else {
    snprintf(out, kPathSize, "/dev/shm/vram-%u", geteuid());
  }
}

FileError ensure_state_folder(const char* path) {
  if (mkdir(path, 0700) != 0 && errno != EEXIST) return from_errno();
  struct stat st {};
  if (lstat(path, &st) != 0) return from_errno();
  return S_ISDIR(st.st_mode) && trusted(st) ? FileError::kNone : FileError::kNotTrusted;
}

Mapping create_job(const char* path) {
  const int fd = open(path, O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC | O_NOFOLLOW, 0600);
  if (fd < 0) return {nullptr, from_errno()};
  Mapping mapping{nullptr, FileError::kNone};
  if (ftruncate(fd, sizeof(Job)) != 0) {
    mapping.error = from_errno();
  } else {
    mapping = map(fd, PROT_READ | PROT_WRITE);
  }
  close(fd);
  if (mapping.error == FileError::kNone) {
    mapping.error = populate(mapping.job, offsetof(Job, process));
  }
  if (mapping.error != FileError::kNone) {
    if (mapping.job != nullptr) unmap_job(mapping.job);
    unlink(path);
    return {nullptr, mapping.error};
  }
  write_header(mapping.job);
  return mapping;
}

Mapping make_private_job() {
  void* at = mmap(nullptr, sizeof(Job), PROT_READ | PROT_WRITE,
                  MAP_SHARED | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (at == MAP_FAILED) return {nullptr, FileError::kSystem};
  write_header(static_cast<Job*>(at));
  return {static_cast<Job*>(at), FileError::kNone};
}

Mapping open_job(const char* path, Access access) {
  const bool write = access == Access::kWrite;
  // O_NONBLOCK: a pipe in the place of a job must not hold the caller up.
  const int fd = open(path, (write ? O_RDWR : O_RDONLY) | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK);
  if (fd < 0) return {nullptr, from_errno()};
  struct stat st {};
  Mapping mapping{nullptr, FileError::kNone};
  if (fstat(fd, &st) != 0) {
    mapping.error = from_errno();
  } else if (!S_ISREG(st.st_mode) || !trusted(st)) {
    mapping.error = FileError::kNotTrusted;
  } else if (st.st_size < static_cast<off_t>(sizeof(JobHeader))) {
    mapping.error = FileError::kNotAJob;
  } else if (st.st_size != static_cast<off_t>(sizeof(Job))) {
    mapping.error = FileError::kVersion;
  } else {
    mapping = map(fd, write ? PROT_READ | PROT_WRITE : PROT_READ);
  }
  close(fd);
  if (mapping.job == nullptr) return mapping;
  const FileError error = check(*mapping.job);
  if (error == FileError::kNone) return mapping;
  unmap_job(mapping.job);
  return {nullptr, error};
}

void unmap_job(const Job* job) { munmap(const_cast<Job*>(job), sizeof(Job)); }

FileError back_slot(Job* job, std::uint32_t slot) {
  const FileError backed = populate(&job->process[slot], sizeof(ProcessInfo));
  if (backed != FileError::kNone) return backed;
  return populate(&job->parking[slot], sizeof(Parking));
}

FileError back_device(Job* job, std::uint32_t device) {
  const FileError backed = populate(job->cell[device], sizeof job->cell[device]);
  if (backed != FileError::kNone) return backed;
  return populate(job->fixed[device], sizeof job->fixed[device]);
}

}  // namespace vram::wire
