#include "wire/trace_file.h"

#include <fcntl.h>
#include <sys/mman.h>

#include <cerrno>

#include "wire/trusted_file.h"

namespace vram::wire {
namespace {

FileError check(const TraceHeader& header, std::uint64_t size) {
  if (__atomic_load_n(&header.magic, __ATOMIC_ACQUIRE) != kTraceMagic) return FileError::kNotAJob;
  const bool same = header.version == kTraceVersion && header.header_bytes == sizeof header &&
                    header.file_bytes == size &&
                    header.capacity == (size - kTraceRecords) / sizeof(TraceRecord) &&
                    header.facts_bytes <= sizeof header.facts;
  return same ? FileError::kNone : FileError::kVersion;
}

TraceMapping map(int fd, std::size_t bytes, int protection) {
  void* at = mmap(nullptr, bytes, protection, MAP_SHARED | MAP_NORESERVE, fd, 0);
  if (at == MAP_FAILED) return {nullptr, 0, FileError::kSystem};
  // Not in anybody's core files, where the records would be no use.
  (void)madvise(at, bytes, MADV_DONTDUMP);
  return {static_cast<TraceLog*>(at), bytes, FileError::kNone};
}

TraceMapping open_with(const char* path, bool write) {
  const int fd = open(path, (write ? O_RDWR : O_RDONLY) | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK);
  if (fd < 0) return {nullptr, 0, from_errno()};
  struct stat st {};
  TraceMapping mapping;
  if (fstat(fd, &st) != 0) {
    mapping.error = from_errno();
  } else if (!S_ISREG(st.st_mode) || !trusted(st)) {
    mapping.error = FileError::kNotTrusted;
  } else if (st.st_size < static_cast<off_t>(sizeof(TraceLog))) {
    mapping.error = FileError::kNotAJob;
  } else {
    const auto bytes = static_cast<std::size_t>(st.st_size);
    mapping = map(fd, bytes, write ? PROT_READ | PROT_WRITE : PROT_READ);
  }
  close(fd);
  if (mapping.log == nullptr) return mapping;
  const FileError error = check(mapping.log->header, mapping.bytes);
  if (error == FileError::kNone) return mapping;
  unmap_trace(mapping);
  return {nullptr, 0, error};
}

void write_header(TraceHeader* header, std::uint64_t file_bytes) {
  header->version = kTraceVersion;
  header->header_bytes = sizeof *header;
  header->file_bytes = file_bytes;
  header->capacity = (file_bytes - kTraceRecords) / sizeof(TraceRecord);
  // Last: a file without the mark is no log yet.
  __atomic_store_n(&header->magic, kTraceMagic, __ATOMIC_RELEASE);
}

}  // namespace

TraceMapping open_trace(const char* path) { return open_with(path, true); }
TraceMapping read_trace(const char* path) { return open_with(path, false); }

TraceMapping create_trace(const char* path, std::uint64_t file_bytes) {
  const int fd = open(path, O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC | O_NOFOLLOW, 0600);
  if (fd < 0) return {nullptr, 0, from_errno()};
  TraceMapping mapping;
  const int refused = posix_fallocate(fd, 0, static_cast<off_t>(kTraceRecords));
  if (refused != 0) {
    mapping.error = refused == ENOSPC ? FileError::kNoSpace : FileError::kSystem;
    errno = refused;
  } else if (ftruncate(fd, static_cast<off_t>(file_bytes)) != 0) {
    mapping.error = from_errno();
  } else {
    mapping = map(fd, file_bytes, PROT_READ | PROT_WRITE);
  }
  const int error = errno;
  close(fd);
  if (mapping.log == nullptr) unlink(path);
  errno = error;
  if (mapping.log != nullptr) write_header(&mapping.log->header, file_bytes);
  return mapping;
}

void unmap_trace(const TraceMapping& mapping) { munmap(mapping.log, mapping.bytes); }

}  // namespace vram::wire
