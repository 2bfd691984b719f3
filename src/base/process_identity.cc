#include "base/process_identity.h"

#include <fcntl.h>
#include <signal.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstddef>

namespace vram::base {
namespace {

struct Stat {
  char state;
  std::uint64_t threads;
  std::uint64_t start_ticks;
};

char* append_number(char* out, std::uint32_t value) {
  char digits[10];
  int n = 0;
  do {
    digits[n++] = static_cast<char>('0' + value % 10);
    value /= 10;
  } while (value != 0);
  while (n > 0) *out++ = digits[--n];
  return out;
}

// `who` is "self" or a number.
std::size_t read_stat(const char* who, char* buffer, std::size_t size) {
  char path[32] = "/proc/";
  char* end = path + 6;
  while (*who != '\0') *end++ = *who++;
  for (const char* tail = "/stat"; (*end++ = *tail++) != '\0';) {
  }
  const int fd = open(path, O_RDONLY | O_CLOEXEC);
  if (fd < 0) return 0;
  const ssize_t got = read(fd, buffer, size - 1);
  close(fd);
  if (got <= 0) return 0;
  buffer[got] = '\0';
  return static_cast<std::size_t>(got);
}

std::uint64_t field(const char* after_comm, int number) {
  const char* p = after_comm;
  for (int i = 3; i < number; ++i) {
    while (*p != '\0' && *p != ' ') ++p;
    while (*p == ' ') ++p;
  }
  std::uint64_t value = 0;
  while (*p >= '0' && *p <= '9') value = value * 10 + static_cast<std::uint64_t>(*p++ - '0');
  return value;
}

// proc(5): the command may hold spaces and parentheses, so fields are counted
// after the last ')'.
bool parse_stat(const char* text, std::size_t length, Stat* out) {
  std::size_t close_at = length;
  while (close_at > 0 && text[close_at] != ')') --close_at;
  if (close_at == 0 || close_at + 2 >= length) return false;
  const char* third = text + close_at + 2;
  *out = {*third, field(third, 20), field(third, 22)};
  return true;
}

bool stat_of(const char* who, Stat* out) {
  char buffer[1024];
  const std::size_t length = read_stat(who, buffer, sizeof buffer);
  return length != 0 && parse_stat(buffer, length, out);
}

struct Number {
  explicit Number(std::int32_t pid) {
    *append_number(text, static_cast<std::uint32_t>(pid)) = '\0';
  }
  char text[12];
};

// False where /proc was mounted for another pid namespace (`unshare --pid`
// alone leaves it so): there a number means another process.
bool proc_is_ours() {
  char text[16];
  const ssize_t length = readlink("/proc/self", text, sizeof text - 1);
  if (length <= 0) return false;
  text[length] = '\0';
  return strcmp(text, Number(getpid()).text) == 0;
}

std::uint64_t make_identity(std::int32_t pid, std::uint64_t start_ticks) {
  constexpr std::uint64_t ticks_mask = (std::uint64_t{1} << (63 - kPidBits)) - 1;
  return static_cast<std::uint64_t>(pid) | (start_ticks & ticks_mask) << kPidBits;
}

}  // namespace

std::uint64_t identity_of(std::int32_t pid) {
  Stat stat{};
  const bool self = pid == getpid();
  if (!self && !proc_is_ours()) return 0;
  return stat_of(self ? "self" : Number(pid).text, &stat) ? make_identity(pid, stat.start_ticks)
                                                          : 0;
}

std::uint64_t own_pid_namespace() {
  struct stat st {};
  return stat("/proc/self/ns/pid", &st) == 0 ? st.st_ino : 0;
}

bool is_alive(std::uint64_t identity, std::uint64_t pid_namespace) {
  if (pid_namespace != own_pid_namespace()) return true;
  const std::int32_t pid = pid_of(identity);
  if (kill(pid, 0) != 0 && errno == ESRCH) return false;
  // The pid is somebody's. When its stat cannot be read (no /proc, hidepid, no
  // free descriptor) nothing says that it is somebody else's.
  Stat stat{};
  if (!proc_is_ours() || !stat_of(Number(pid).text, &stat)) return true;
  if (make_identity(pid, stat.start_ticks) != identity) return false;
  return !((stat.state == 'Z' || stat.state == 'X') && stat.threads <= 1);
}

}  // namespace vram::base
