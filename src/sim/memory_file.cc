#include "sim/memory_file.h"

#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cstdio>
#include <cstring>
#include <string>

namespace vram::sim {
namespace {

// Objects named after a file are told from numbered ones by their highest bit.
constexpr uint64_t kFileObject = uint64_t{1} << 63;

bool card_behind(const char* prefix, int descriptor, int* card) {
  char link[256];
  const std::string path = "/proc/self/fd/" + std::to_string(descriptor);
  const ssize_t length = ::readlink(path.c_str(), link, sizeof(link) - 1);
  if (length <= 0) return false;
  link[length] = '\0';
  const char* const name = std::strstr(link, prefix);
  return name != nullptr && std::sscanf(name + std::strlen(prefix), "%d", card) == 1;
}

}  // namespace

int new_memory_file(const char* prefix, int card, uint64_t bytes) {
  const std::string name = prefix + std::to_string(card);
  const int file = ::memfd_create(name.c_str(), MFD_CLOEXEC);
  if (file >= 0 && ::ftruncate(file, static_cast<off_t>(bytes)) != 0) {
    ::close(file);
    return -1;
  }
  return file;
}

bool memory_behind(const char* prefix, int descriptor, MemoryFile* out) {
  struct stat status = {};
  if (!card_behind(prefix, descriptor, &out->card) || ::fstat(descriptor, &status) != 0) {
    return false;
  }
  out->object = kFileObject | status.st_ino;
  out->bytes = static_cast<uint64_t>(status.st_size);
  return true;
}

}  // namespace vram::sim
