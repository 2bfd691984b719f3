// Opening a machine's file and locking rows of it; see Machine on when the descriptor may be
// closed.
#pragma once

#include <fcntl.h>

#include <cstdint>
#include <string>

namespace vram::sim {

struct OpenFile {
  int high = -1;  // out of the way of programs that close their low descriptors
  int low = -1;   // as first opened; the same as `high` where descriptors are few
  uint64_t inode = 0;
};

// False when the file cannot be had or is not the caller's own. `flags` as O_CREAT or 0.
[[nodiscard]] bool open_own_file(const std::string& path, int flags, OpenFile* out);

// A record lock, to set or to ask about, on a row's byte.
[[nodiscard]] struct flock row_lock(short type, uint32_t row);

// Field 22 of /proc/self/stat; 0 where it cannot be read.
[[nodiscard]] uint64_t own_start_time();

}  // namespace vram::sim
