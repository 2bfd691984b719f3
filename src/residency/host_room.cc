#include "residency/host_room.h"

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

namespace vram::residency {
namespace {

constexpr std::uint64_t kNoLimit = ~std::uint64_t{0};
constexpr unsigned kKeptFree = 10;  // this part of it

// The whole text of a small file; false: it cannot be read.
bool read_text(const char* path, char* text, std::size_t size) {
  const int file = open(path, O_RDONLY | O_CLOEXEC);
  if (file < 0) return false;
  std::size_t length = 0;
  for (ssize_t got = 1; got > 0 && length + 1 < size;) {
    got = read(file, text + length, size - 1 - length);
    if (got > 0) length += static_cast<std::size_t>(got);
  }
  close(file);
  text[length] = '\0';
  return length != 0;
}

std::uint64_t number_after(const char* text, const char* name, std::uint64_t otherwise) {
  const char* at = strstr(text, name);
  return at == nullptr ? otherwise : strtoull(at + strlen(name), nullptr, 10);
}

std::uint64_t number_in(const char* path, std::uint64_t otherwise) {
  char text[64];
  if (!read_text(path, text, sizeof text) || text[0] < '0' || text[0] > '9') return otherwise;
  return strtoull(text, nullptr, 10);
}

std::uint64_t room_of(std::uint64_t all, std::uint64_t available) {
  const std::uint64_t kept = all / kKeptFree;
  return available > kept ? available - kept : 0;
}

// Of one group; file caches of a group go when it needs their memory.
std::uint64_t room_of_group(const char* folder) {
  char path[4400];
  snprintf(path, sizeof path, "%s/memory.max", folder);
  const std::uint64_t most = number_in(path, kNoLimit);
  snprintf(path, sizeof path, "%s/memory.current", folder);
  const std::uint64_t used = number_in(path, kNoLimit);
  if (most == kNoLimit || used == kNoLimit) return kNoLimit;
  char text[8192];
  snprintf(path, sizeof path, "%s/memory.stat", folder);
  std::uint64_t caches = 0;
  if (read_text(path, text, sizeof text)) {
    caches = number_after(text, "inactive_file ", 0) + number_after(text, "\nactive_file ", 0);
  }
  const std::uint64_t taken = used > caches ? used - caches : 0;
  return room_of(most, most > taken ? most - taken : 0);
}

// The least of the group's own and its parents'.
std::uint64_t room_in_groups() {
  char text[4096];
  if (!read_text("/proc/self/cgroup", text, sizeof text)) return kNoLimit;
  const char* at = strstr(text, "0::/");
  if (at == nullptr) return kNoLimit;
  char folder[4352];
  const int length = snprintf(folder, sizeof folder, "/sys/fs/cgroup%.*s",
                              static_cast<int>(strcspn(at + 3, "\n")), at + 3);
  if (length <= 0) return kNoLimit;
  constexpr std::size_t kRoot = sizeof "/sys/fs/cgroup" - 1;
  std::uint64_t least = kNoLimit;
  while (strlen(folder) >= kRoot) {
    const std::uint64_t room = room_of_group(folder);
    if (room < least) least = room;
    *strrchr(folder, '/') = '\0';
  }
  return least;
}

}  // namespace

std::uint64_t host_room() {
  char text[4096];
  if (!read_text("/proc/meminfo", text, sizeof text)) return 0;
  const std::uint64_t all = number_after(text, "MemTotal:", 0) << 10;
  const std::uint64_t available = number_after(text, "MemAvailable:", 0) << 10;
  const std::uint64_t of_host = room_of(all, available);
  const std::uint64_t of_group = room_in_groups();
  return of_group < of_host ? of_group : of_host;
}

}  // namespace vram::residency
