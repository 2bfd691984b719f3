#pragma once

// Whose word a file is: see job_file.h.

#include <sys/stat.h>
#include <unistd.h>

#include "wire/job_file.h"

namespace vram::wire {

// What errno says of a file that could not be made or opened.
FileError from_errno();

inline bool trusted(const struct stat& st) {
  const bool owner = st.st_uid == geteuid() || st.st_uid == 0;
  return owner && (st.st_mode & (S_IWGRP | S_IWOTH)) == 0;
}

}  // namespace vram::wire
