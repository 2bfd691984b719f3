#include "cli/executable.h"

#include <elf.h>
#include <sys/stat.h>
#include <sys/xattr.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <fstream>
#include <sstream>
#include <vector>

namespace vram::cli {
namespace {

// As many as the kernel follows.
constexpr int kMaxInterpreters = 5;
// The first line of a script; the kernel reads no more.
constexpr std::size_t kHead = 256;

bool is_regular(const std::string& path) {
  struct stat st {};
  return stat(path.c_str(), &st) == 0 && S_ISREG(st.st_mode);
}

Result<std::string> check_path(const std::string& path) {
  struct stat st {};
  if (stat(path.c_str(), &st) != 0) {
    const int status = errno == ENOENT || errno == ENOTDIR ? kCommandNotFound : kNotExecutable;
    return Failure{"cannot run '" + path + "': " + std::strerror(errno) + "; check the path",
                   status};
  }
  if (S_ISDIR(st.st_mode)) {
    return Failure{"cannot run '" + path + "': it is a folder; name a program in it",
                   kNotExecutable};
  }
  if (access(path.c_str(), X_OK) != 0) {
    return Failure{"cannot run '" + path +
                       "': it is not executable; try chmod +x, or name its "
                       "interpreter first",
                   kNotExecutable};
  }
  return path;
}

std::string read_head(const std::string& path, std::size_t size) {
  std::ifstream file(path, std::ios::binary);
  std::string head(size, '\0');
  file.read(head.data(), static_cast<std::streamsize>(size));
  head.resize(static_cast<std::size_t>(file.gcount()));
  return head;
}

// "#!/usr/bin/env -S python3 -u": env itself is governable, what matters is whom it runs.
std::string script_interpreter(const std::string& head, const std::string& search_path) {
  std::istringstream line(head.substr(2, head.find('\n') - 2));
  std::string interpreter, word;
  line >> interpreter;
  if (interpreter.size() < 4 || interpreter.substr(interpreter.size() - 4) != "/env")
    return interpreter;
  while (line >> word) {
    if (word[0] == '-' || word.find('=') != std::string::npos) continue;
    const Result<std::string> found = find_executable(word, search_path);
    return found ? *found : interpreter;
  }
  return interpreter;
}

std::string privilege_change(const std::string& path) {
  struct stat st {};
  if (stat(path.c_str(), &st) != 0) return "";
  // The linker ignores preloads in a program that changes who it is; not when it stays the same
  // user.
  if ((st.st_mode & S_ISUID) != 0 && st.st_uid != getuid()) return "has the set-user-ID bit";
  const bool setgid = (st.st_mode & S_ISGID) != 0 && (st.st_mode & S_IXGRP) != 0;
  if (setgid && st.st_gid != getgid()) return "has the set-group-ID bit";
  const bool capabilities = getxattr(path.c_str(), "security.capability", nullptr, 0) > 0;
  return capabilities && getuid() != 0 ? "has file capabilities" : "";
}

std::string elf_obstacle(const std::string& path, const std::string& head) {
  if (head.size() < sizeof(Elf64_Ehdr)) return "is not a whole program";
  if (head[EI_CLASS] != ELFCLASS64) return "is a 32-bit program";
  Elf64_Ehdr header{};
  std::memcpy(&header, head.data(), sizeof header);
  if (header.e_machine != EM_X86_64) return "is for another processor";
  const std::size_t end = header.e_phoff + std::size_t{header.e_phnum} * sizeof(Elf64_Phdr);
  // Program headers stand at the beginning of the file in everything a linker writes.
  if (end > (std::size_t{1} << 20)) return "has an unusual layout";
  const std::string table = read_head(path, end);
  if (table.size() < end) return "is not a whole program";
  for (std::size_t i = 0; i < header.e_phnum; ++i) {
    Elf64_Phdr segment{};
    std::memcpy(&segment, table.data() + header.e_phoff + i * sizeof segment, sizeof segment);
    if (segment.p_type != PT_INTERP) continue;
    std::ifstream file(path, std::ios::binary);
    file.seekg(static_cast<std::streamoff>(segment.p_offset));
    std::string linker(std::min<std::size_t>(segment.p_filesz, 4096), '\0');
    file.read(linker.data(), static_cast<std::streamsize>(linker.size()));
    // Its loader cannot load a library made for the GNU C library.
    return linker.find("ld-musl") != std::string::npos ? "is linked with musl" : "";
  }
  // The dynamic linker itself may be run as a command and honours preloads.
  const std::string name = path.substr(path.rfind('/') + 1);
  return name.compare(0, 3, "ld-") == 0 || name == "ld.so" ? "" : "is statically linked";
}

}  // namespace

Result<std::string> find_executable(const std::string& command, const std::string& search_path) {
  if (command.empty())
    return Failure{"the command's name is empty; write: vram run -m 4GiB -- CMD"};
  if (command.find('/') != std::string::npos) return check_path(command);
  std::string not_runnable;
  std::istringstream folders(search_path);
  std::string folder;
  while (std::getline(folders, folder, ':')) {
    const std::string path = (folder.empty() ? "." : folder) + "/" + command;
    if (!is_regular(path)) continue;
    if (access(path.c_str(), X_OK) == 0) return path;
    if (not_runnable.empty()) not_runnable = path;
  }
  if (!not_runnable.empty()) return check_path(not_runnable);
  return Failure{
      "cannot run '" + command + "': it is not in PATH; check the spelling, or write the path",
      kCommandNotFound};
}

std::string why_not_governable(const std::string& path, const std::string& search_path) {
  std::string program = path;
  for (int depth = 0; depth < kMaxInterpreters; ++depth) {
    const std::string who =
        program == path ? "'" + path + "' " : "'" + path + "': its interpreter '" + program + "' ";
    const std::string head = read_head(program, kHead);
    if (head.compare(0, 2, "#!") == 0) {
      // The set-user-ID bit of a script means nothing to the kernel.
      program = script_interpreter(head, search_path);
      continue;
    }
    std::string obstacle = privilege_change(program);
    const bool elf = head.compare(0, SELFMAG, ELFMAG) == 0;
    if (obstacle.empty() && elf) obstacle = elf_obstacle(program, head);
    // What is neither is run by /bin/sh, or cannot be read: then only running it will tell.
    return obstacle.empty() ? "" : who + obstacle;
  }
  return "";
}

}  // namespace vram::cli
