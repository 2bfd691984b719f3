#include "sim/lifeline.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cstring>
#include <string>

namespace vram::sim {
namespace {

constexpr char kFileName[] = "vram-sim-lifeline";
// Out of the way of programs that close their low descriptors.
constexpr int kDescriptorFloor = 700;

std::string path_of(pid_t pid, int descriptor) {
  return "/proc/" + std::to_string(pid) + "/fd/" + std::to_string(descriptor);
}

// The program may have closed the keeper, and opened something else under its number.
bool is_lifeline(const std::string& path) {
  char link[256];
  const ssize_t length = ::readlink(path.c_str(), link, sizeof(link) - 1);
  if (length <= 0) return false;
  link[length] = '\0';
  return std::strstr(link, kFileName) != nullptr;
}

struct flock whole_file(short type) {
  struct flock lock = {};
  lock.l_type = type;
  lock.l_whence = SEEK_SET;
  return lock;
}

bool open_given(const std::string& keeper, int* given) {
  *given = ::open(keeper.c_str(), O_RDWR | O_CLOEXEC);
  struct flock lock = whole_file(F_RDLCK);
  if (*given >= 0 && ::fcntl(*given, F_OFD_SETLK, &lock) == 0) return true;
  if (*given >= 0) ::close(*given);
  return false;
}

}  // namespace

bool make_lifeline(uint64_t bytes, Lifeline* out) {
  const int low = ::memfd_create(kFileName, MFD_CLOEXEC);
  if (low < 0) return false;
  Lifeline made;
  made.keeper = ::fcntl(low, F_DUPFD_CLOEXEC, kDescriptorFloor);
  if (made.keeper < 0) {
    made.keeper = low;  // a low limit of descriptors
  } else {
    ::close(low);
  }
  if (::ftruncate(made.keeper, static_cast<off_t>(bytes)) != 0 ||
      !open_given(path_of(::getpid(), made.keeper), &made.given)) {
    ::close(made.keeper);
    return false;
  }
  *out = made;
  return true;
}

bool is_given_open(pid_t pid, int keeper) {
  const std::string path = path_of(pid, keeper);
  if (!is_lifeline(path)) return false;
  const int file = ::open(path.c_str(), O_RDWR | O_CLOEXEC);
  if (file < 0) return false;
  struct flock lock = whole_file(F_WRLCK);
  const bool free = ::fcntl(file, F_OFD_GETLK, &lock) == 0 && lock.l_type == F_UNLCK;
  ::close(file);
  return !free;
}

}  // namespace vram::sim
