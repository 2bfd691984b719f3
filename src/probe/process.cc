#include "probe/process.h"

#include <pwd.h>
#include <sys/stat.h>

#include <fstream>
#include <iterator>
#include <sstream>
#include <vector>

namespace vram::probe {
namespace {

std::optional<std::string> read_file(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  if (!file) return std::nullopt;
  return std::string(std::istreambuf_iterator<char>(file), {});
}

void read_stat(const std::string& folder, Process* process, std::string* comm) {
  const std::optional<std::string> text = read_file(folder + "/stat");
  if (!text) return;
  // The name may hold spaces and parentheses; fields are counted after the last ')'.
  const std::size_t open = text->find('(');
  const std::size_t close = text->rfind(')');
  if (open == std::string::npos || close == std::string::npos || close < open) return;
  *comm = text->substr(open + 1, close - open - 1);
  std::istringstream rest(text->substr(close + 1));
  char state = 0;
  std::int32_t parent = 0;
  if (!(rest >> state >> parent)) return;
  process->state = state;
  process->parent = parent;
}

// Arguments are separated by zeros; whatever could move the cursor of a terminal is replaced.
std::string as_one_line(std::string text) {
  while (!text.empty() && text.back() == '\0') text.pop_back();
  for (char& c : text) {
    if (c == '\0') {
      c = ' ';
    } else if (static_cast<unsigned char>(c) < 0x20 || c == 0x7f) {
      c = '?';
    }
  }
  return text;
}

}  // namespace

Process read_process(std::int32_t pid) {
  Process process;
  process.pid = pid;
  const std::string folder = "/proc/" + std::to_string(pid);
  struct stat st {};
  if (stat(folder.c_str(), &st) != 0) return process;
  process.uid = st.st_uid;
  std::string comm;
  read_stat(folder, &process, &comm);
  const std::optional<std::string> line = read_file(folder + "/cmdline");
  if (line && !line->empty()) {
    process.command = as_one_line(*line);
  } else if (!comm.empty()) {
    process.command = "[" + as_one_line(comm) + "]";
  }
  return process;
}

std::string user_name(std::uint32_t uid) {
  std::vector<char> buffer(4096);
  struct passwd entry {};
  struct passwd* found = nullptr;
  if (getpwuid_r(uid, &entry, buffer.data(), buffer.size(), &found) == 0 && found != nullptr) {
    return entry.pw_name;
  }
  return std::to_string(uid);
}

}  // namespace vram::probe
