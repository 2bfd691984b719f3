#include "harness.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <sstream>
#include <thread>

namespace vram::interpose_test {
namespace {

constexpr auto kPatience = std::chrono::seconds(60);

// What a developer's shell may hold must not decide a test.
bool is_ours(const std::string& variable) {
  for (const char* start : {"VRAM_", "CUDA_", "LD_PRELOAD=", "LD_LIBRARY_PATH=",
                            "PER_PROCESS_GPU_MEMORY=", "XDG_", "GPU_ID="}) {
    if (variable.rfind(start, 0) == 0) return true;
  }
  return false;
}

std::vector<char*> pointers(const Words& words) {
  std::vector<char*> out;
  for (const std::string& word : words) out.push_back(const_cast<char*>(word.c_str()));
  out.push_back(nullptr);
  return out;
}

std::string read_file(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  std::ostringstream text;
  text << file.rdbuf();
  return text.str();
}

void redirect(const std::string& path, int to) {
  const int file = ::open(path.c_str(), O_WRONLY | O_CREAT | O_TRUNC, 0600);
  ::dup2(file, to);
  ::close(file);
}

// The child leads a group of its own, so that a run that hangs is ended with all it started.
int wait_for(pid_t child) {
  const auto deadline = std::chrono::steady_clock::now() + kPatience;
  int status = 0;
  while (::waitpid(child, &status, WNOHANG) == 0) {
    if (std::chrono::steady_clock::now() > deadline) {
      ::kill(-child, SIGKILL);
      ::waitpid(child, &status, 0);
      return -1;
    }
    std::this_thread::sleep_for(std::chrono::milliseconds(2));
  }
  return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
}

}  // namespace

std::string built(const std::string& path) { return std::string(VRAM_BINARY_DIR) + "/" + path; }

std::string program_path(const std::string& program) {
  return program.find('/') == std::string::npos ? built("tests/programs/" + program) : program;
}

Bench::Bench(std::string cards) : cards_(std::move(cards)) {
  char name[] = "/dev/shm/vram-test-XXXXXX";
  const char* made = ::mkdtemp(name);
  EXPECT_NE(made, nullptr);
  folder_ = name;
  machine_ = "test-" + folder_.substr(folder_.rfind('-') + 1);
}

Bench::~Bench() {
  std::error_code ignored;
  std::filesystem::remove_all(folder_, ignored);
  for (const auto& entry : std::filesystem::directory_iterator("/dev/shm", ignored)) {
    if (entry.path().filename().string().find("-" + machine_) != std::string::npos) {
      std::filesystem::remove(entry.path(), ignored);
    }
  }
}

Outcome Bench::command(const Words& line) const {
  Words environment;
  for (char** variable = environ; *variable != nullptr; ++variable) {
    if (!is_ours(*variable)) environment.push_back(*variable);
  }
  // The same programs, their memory served by whoever is named.
  if (const char* alloc = getenv("TEST_ALLOC"); alloc != nullptr) {
    const bool elastic = std::string(alloc) == "elastic";
    environment.push_back(elastic ? "VRAM_ELASTIC=true" : std::string("VRAM_ALLOC=") + alloc);
  }
  environment.push_back("VRAM_STATE_DIR=" + folder_ + "/state");
  environment.push_back("VRAM_SIM_NAME=" + machine_);
  environment.push_back("XDG_CONFIG_HOME=" + folder_);
  environment.push_back("XDG_CACHE_HOME=" + folder_);
  environment.insert(environment.end(), environment_.begin(), environment_.end());
  const std::vector<char*> arguments = pointers(line);
  const std::vector<char*> variables = pointers(environment);
  const std::string out = folder_ + "/out";
  const std::string err = folder_ + "/err";

  const pid_t child = ::fork();
  if (child == 0) {
    ::setpgid(0, 0);
    redirect(out, STDOUT_FILENO);
    redirect(err, STDERR_FILENO);
    ::execve(arguments[0], arguments.data(), variables.data());
    ::_exit(127);
  }
  Outcome outcome;
  outcome.status = wait_for(child);
  outcome.out = read_file(out);
  outcome.err = read_file(err);
  return outcome;
}

Outcome Bench::bare(const std::string& program, const Words& arguments) const {
  Words line = {"/usr/bin/env", "LD_LIBRARY_PATH=" + built("lib/sim"), "VRAM_SIM=" + cards_,
                program_path(program)};
  line.insert(line.end(), arguments.begin(), arguments.end());
  return command(line);
}

Outcome Bench::governed(const Words& options, const std::string& program,
                        const Words& arguments) const {
  Words line = {built("bin/vram"), "run", "-q", "--sim", cards_};
  if (options.empty()) line.insert(line.end(), {"-m", "4GiB"});
  line.insert(line.end(), options.begin(), options.end());
  line.insert(line.end(), {"--", program_path(program)});
  line.insert(line.end(), arguments.begin(), arguments.end());
  return command(line);
}

std::string shown(const Outcome& outcome) {
  return "status " + std::to_string(outcome.status) + "\nout: " + outcome.out +
         "\nerr: " + outcome.err;
}

}  // namespace vram::interpose_test
