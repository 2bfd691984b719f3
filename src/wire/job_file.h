#pragma once

// Where job files lie, and how one is made, found and checked.
//
// The folder is /dev/shm/vram-UID, or $VRAM_STATE_DIR: memory, gone with the
// host, never on a disk. It is 0700 and the files are 0600; a folder or file
// that belongs to anybody but the caller or root, is writable by others, or is
// a link, is refused: what it says would be somebody else's word.
//
// Nothing here needs libstdc++ or throws; failures are values. Not for signal
// handlers.

#include <cstddef>
#include <cstdint>

#include "wire/job_layout.h"

namespace vram::wire {

enum class FileError : std::uint8_t {
  kNone,
  kNotFound,
  kNotTrusted,  // another owner, writable by others, or a link
  kNotAJob,     // too short, or without the mark
  kVersion,     // made by another version of vram
  kExists,
  kNoSpace,  // the state folder's file system is full
  kSystem,   // see errno
};
const char* describe(FileError error);

struct Mapping {
  Job* job = nullptr;
  FileError error = FileError::kNone;
};

inline constexpr std::size_t kPathSize = 4096;

// Writes the state folder's path, without a slash at the end, into `out`
// (kPathSize bytes).
void state_folder(char* out);

// Makes the folder if it is missing and checks it.
[[nodiscard]] FileError ensure_state_folder(const char* path);

// Makes a new, empty job: header marked and sized, default_limit unlimited,
// everything else zero.
[[nodiscard]] Mapping create_job(const char* path);

// The same without a file: shared with forked children only.
[[nodiscard]] Mapping make_private_job();

enum class Access : std::uint8_t { kRead, kWrite };
[[nodiscard]] Mapping open_job(const char* path, Access access);

void unmap_job(const Job* job);

// These back words with real pages before anybody touches them, so that a full
// file system is an error here and not a signal in the middle of a host
// program. create_job does it for the words that every member reads.

// What a process says of itself.
[[nodiscard]] FileError back_slot(Job* job, std::uint32_t slot);
// A device's words of every slot, taken or not: whoever is refused reads them
// all.
[[nodiscard]] FileError back_device(Job* job, std::uint32_t device);

}  // namespace vram::wire
