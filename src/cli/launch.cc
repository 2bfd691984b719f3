#include "cli/launch.h"

#include <fcntl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <csignal>
#include <cstring>

namespace vram::cli {
namespace {

// Signals that mean the program when somebody sends them to us.
constexpr int kForwarded[] = {SIGINT, SIGQUIT, SIGTERM, SIGHUP, SIGUSR1, SIGUSR2, SIGALRM, SIGCONT};

class Signals {
 public:
  Signals() {
    sigemptyset(&taken_);
    sigaddset(&taken_, SIGCHLD);
    for (const int number : kForwarded) sigaddset(&taken_, number);
    sigprocmask(SIG_BLOCK, &taken_, &before_);
    // Whoever started us may ignore SIGCHLD, and then there would be no status to wait for.
    struct sigaction standard {};
    standard.sa_handler = SIG_DFL;
    sigaction(SIGCHLD, &standard, &child_before_);
  }
  ~Signals() { restore(); }
  Signals(const Signals&) = delete;
  Signals& operator=(const Signals&) = delete;

  void restore() const {
    sigaction(SIGCHLD, &child_before_, nullptr);
    sigprocmask(SIG_SETMASK, &before_, nullptr);
  }

  siginfo_t next() const {
    siginfo_t info{};
    while (sigwaitinfo(&taken_, &info) < 0) {
    }
    return info;
  }

 private:
  sigset_t taken_{};
  sigset_t before_{};
  struct sigaction child_before_ {};
};

std::vector<char*> pointers(const std::vector<std::string>& texts) {
  std::vector<char*> out;
  for (const std::string& text : texts) out.push_back(const_cast<char*>(text.c_str()));
  out.push_back(nullptr);
  return out;
}

int execute(const Program& program) {
  const std::vector<char*> arguments = pointers(program.arguments);
  const std::vector<char*> environment = pointers(program.environment);
  execvpe(arguments[0], arguments.data(), environment.data());
  return errno;
}

Failure exec_failure(const Program& program, int error) {
  const bool missing = error == ENOENT || error == ENOTDIR;
  return {"cannot run '" + program.arguments[0] + "': " + std::strerror(error) +
              (missing ? "; check the path, and that of its interpreter" : "; check what it is"),
          missing ? kCommandNotFound : kNotExecutable};
}

// Reports whether exec succeeded: closed by exec, else it carries errno.
struct ExecPipe {
  int read_end = -1;
  int write_end = -1;

  bool open() {
    int ends[2];
    if (pipe2(ends, O_CLOEXEC) != 0) return false;
    read_end = ends[0];
    write_end = ends[1];
    return true;
  }
};

[[noreturn]] void child(const Program& program, const Signals& signals, const ExecPipe& pipe) {
  close(pipe.read_end);
  signals.restore();
  const int error = execute(program);
  (void)!write(pipe.write_end, &error, sizeof error);
  _exit(kCommandNotFound);
}

int exec_error(const ExecPipe& pipe) {
  close(pipe.write_end);
  int error = 0;
  ssize_t got = 0;
  do {
    got = read(pipe.read_end, &error, sizeof error);
  } while (got < 0 && errno == EINTR);
  close(pipe.read_end);
  return got == sizeof error ? error : 0;
}

void forward(pid_t pid, const siginfo_t& info) {
  // The kernel sends the terminal's signals to the whole process group, the program among it.
  if (info.si_code == SI_KERNEL) return;
  kill(pid, info.si_signo);
}

// Somebody waits at a terminal for us, and would go on waiting if the program alone stood still.
// Elsewhere whoever stops the program alone can continue it alone.
bool at_terminal() { return tcgetpgrp(STDIN_FILENO) == getpgrp(); }

void stop_with(pid_t pid) {
  if (!at_terminal()) return;
  raise(SIGSTOP);
  // Continued, perhaps alone.
  kill(pid, SIGCONT);
}

// True: the program ended, and `*status` says how. Also takes whatever else ended: as the first
// process of a container we inherit the orphans.
bool collect(pid_t pid, int* status) {
  bool ended = false;
  int raw = 0;
  for (pid_t got; (got = waitpid(-1, &raw, WNOHANG | WUNTRACED)) > 0;) {
    if (got != pid) continue;
    if (WIFSTOPPED(raw)) {
      stop_with(pid);
      continue;
    }
    *status = WIFSIGNALED(raw) ? 128 + WTERMSIG(raw) : WEXITSTATUS(raw);
    ended = true;
  }
  return ended;
}

}  // namespace

Result<int> run_and_wait(const Program& program, const std::function<void(pid_t)>& started) {
  ExecPipe pipe;
  if (!pipe.open()) return Failure{std::string("cannot make a pipe: ") + std::strerror(errno)};
  const Signals signals;
  const pid_t pid = fork();
  if (pid < 0) {
    return Failure{std::string("cannot start a process: ") + std::strerror(errno) +
                   "; close some, or raise 'ulimit -u'"};
  }
  if (pid == 0) child(program, signals, pipe);
  started(pid);
  if (const int error = exec_error(pipe); error != 0) {
    waitpid(pid, nullptr, 0);
    return exec_failure(program, error);
  }
  int status = 0;
  while (!collect(pid, &status)) {
    const siginfo_t info = signals.next();
    if (info.si_signo != SIGCHLD) forward(pid, info);
  }
  return status;
}

Failure become(const Program& program) { return exec_failure(program, execute(program)); }

}  // namespace vram::cli
