#include "sim/machine_file.h"

#include <sys/stat.h>
#include <unistd.h>

#include <cstdio>
#include <cstring>

#include "sim/machine_layout.h"

namespace vram::sim {
namespace {

// High enough that programs which close their low descriptors one by one do not meet it.
constexpr int kDescriptorFloor = 700;

}  // namespace

bool open_own_file(const std::string& path, int flags, OpenFile* out) {
  OpenFile file;
  file.low = ::open(path.c_str(), O_RDWR | O_CLOEXEC | O_NOFOLLOW | flags, 0600);
  if (file.low < 0) return false;
  struct stat status = {};
  if (::fstat(file.low, &status) != 0 || status.st_uid != ::geteuid() || !S_ISREG(status.st_mode)) {
    ::close(file.low);
    return false;
  }
  file.inode = status.st_ino;
  file.high = ::fcntl(file.low, F_DUPFD_CLOEXEC, kDescriptorFloor);
  if (file.high < 0) file.high = file.low;  // a low limit of descriptors
  *out = file;
  return true;
}

struct flock row_lock(short type, uint32_t row) {
  struct flock lock = {};
  lock.l_type = type;
  lock.l_whence = SEEK_SET;
  lock.l_start = kLockOffset + row;
  lock.l_len = 1;
  return lock;
}

uint64_t own_start_time() {
  char text[1024];
  const int fd = ::open("/proc/self/stat", O_RDONLY | O_CLOEXEC);
  if (fd < 0) return 0;
  const ssize_t length = ::read(fd, text, sizeof(text) - 1);
  ::close(fd);
  if (length <= 0) return 0;
  text[length] = '\0';
  const char* field = std::strrchr(text, ')');  // the command may hold spaces
  for (int i = 0; field != nullptr && i < 20; ++i) field = std::strchr(field + 1, ' ');
  unsigned long long value = 0;
  if (field == nullptr || std::sscanf(field, " %llu", &value) != 1) return 0;
  return value;
}

}  // namespace vram::sim
