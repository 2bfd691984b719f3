#include "base/process_identity.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sched.h>
#include <signal.h>
#include <sys/mount.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdlib>
#include <functional>
#include <thread>

namespace vram::base {
namespace {

pid_t start(const std::function<int()>& body) {
  const pid_t child = fork();
  if (child == 0) _exit(body());
  return child;
}

int code_of(pid_t child) {
  int status = 0;
  if (waitpid(child, &status, 0) != child) return -1;
  return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
}

bool alive(std::uint64_t identity) { return is_alive(identity, own_pid_namespace()); }

// Not reaped by us: a zombie.
void wait_until_dead(pid_t child) {
  siginfo_t info{};
  ASSERT_EQ(waitid(P_PID, static_cast<id_t>(child), &info, WEXITED | WNOWAIT), 0);
}

TEST(ProcessIdentity, NamesTheProcessAndStaysTheSame) {
  const std::uint64_t identity = identity_of(getpid());
  EXPECT_NE(identity, 0u);
  EXPECT_EQ(pid_of(identity), getpid());
  EXPECT_EQ(identity_of(getpid()), identity);
  EXPECT_EQ(identity >> 63, 0u);
  EXPECT_TRUE(alive(identity));
}

TEST(ProcessIdentity, IsTheSameWhoeverAsks) {
  const std::uint64_t mine = identity_of(getpid());
  const pid_t parent = getpid();
  EXPECT_EQ(code_of(start([&] { return identity_of(parent) == mine ? 0 : 1; })), 0);
}

TEST(ProcessIdentity, OfAPidThatNobodyHasIsNone) {
  const pid_t child = start([] { return 0; });
  ASSERT_EQ(code_of(child), 0);
  EXPECT_EQ(identity_of(child), 0u);
}

TEST(ProcessIdentity, SurvivesExecAlsoFromAThread) {
  int ends[2] = {};
  ASSERT_EQ(pipe(ends), 0);
  const pid_t child = start([&]() -> int {
    dup2(ends[1], 1);
    std::thread([] { execl("/bin/sh", "sh", "-c", "echo; exec sleep 10", nullptr); }).join();
    return 9;
  });
  const std::uint64_t before = identity_of(child);
  char byte = 0;
  ASSERT_EQ(read(ends[0], &byte, 1), 1);  // sh runs
  EXPECT_EQ(identity_of(child), before);
  EXPECT_TRUE(alive(before));
  kill(child, SIGKILL);
  (void)code_of(child);
  close(ends[0]);
  close(ends[1]);
}

TEST(ProcessIdentity, AZombieIsDead) {
  const pid_t child = start([] { return 0; });
  const std::uint64_t identity = identity_of(child);
  ASSERT_NO_FATAL_FAILURE(wait_until_dead(child));
  EXPECT_FALSE(alive(identity));
  EXPECT_EQ(code_of(child), 0);
  EXPECT_FALSE(alive(identity));
}

TEST(ProcessIdentity, AProcessWhoseFirstThreadEndedIsAliveWhileAnotherRuns) {
  int ends[2] = {};
  ASSERT_EQ(pipe(ends), 0);
  const pid_t child = start([&]() -> int {
    std::thread([] { pause(); }).detach();
    if (write(ends[1], "x", 1) != 1) return 1;
    syscall(SYS_exit, 0);  // this thread alone
    return 2;
  });
  const std::uint64_t identity = identity_of(child);
  char byte = 0;
  ASSERT_EQ(read(ends[0], &byte, 1), 1);
  usleep(50'000);  // its first thread is a zombie by now
  EXPECT_TRUE(alive(identity));
  kill(child, SIGKILL);
  ASSERT_NO_FATAL_FAILURE(wait_until_dead(child));
  EXPECT_FALSE(alive(identity));
  (void)code_of(child);
  close(ends[0]);
  close(ends[1]);
}

TEST(ProcessIdentity, AReusedPidIsSomebodyElse) {
  const std::uint64_t mine = identity_of(getpid());
  EXPECT_FALSE(alive(mine + (std::uint64_t{1} << kPidBits))) << "started a tick later";
  EXPECT_FALSE(alive(mine - (std::uint64_t{1} << kPidBits))) << "started a tick earlier";
}

TEST(ProcessIdentity, AProcessOfAnotherNamespaceIsNotJudged) {
  const pid_t child = start([] { return 0; });
  const std::uint64_t identity = identity_of(child);
  ASSERT_EQ(code_of(child), 0);
  EXPECT_FALSE(alive(identity));
  EXPECT_TRUE(is_alive(identity, own_pid_namespace() + 1));
  EXPECT_TRUE(is_alive(identity, 0)) << "whose namespace nobody knows";
}

TEST(ProcessIdentity, WithoutAFreeDescriptorNobodyWhoHasAPidIsDead) {
  const std::uint64_t mine = identity_of(getpid());
  const pid_t gone = start([] { return 0; });
  const std::uint64_t dead = identity_of(gone);
  ASSERT_EQ(code_of(gone), 0);
  const pid_t child = start([&]() -> int {
    const rlimit none{0, 0};
    if (setrlimit(RLIMIT_NOFILE, &none) != 0) return 1;
    if (open("/proc/self/stat", O_RDONLY) >= 0) return 2;
    if (!alive(mine)) return 3;
    if (!alive(mine + (std::uint64_t{1} << kPidBits))) return 4;  // cannot be told apart now
    return alive(dead) ? 5 : 0;
  });
  EXPECT_EQ(code_of(child), 0);
}

constexpr int kNotAllowed = 77;

// In a new pid namespace, as its first process; /proc is still the old one.
int in_new_namespace(const std::function<int()>& body) {
  return code_of(start([&]() -> int {
    if (unshare(CLONE_NEWPID | CLONE_NEWNS) != 0) return kNotAllowed;
    if (mount(nullptr, "/", nullptr, MS_REC | MS_PRIVATE, nullptr) != 0) return kNotAllowed;
    return code_of(start(body));
  }));
}

TEST(ProcessIdentity, UnderAnotherNamespacesProcNobodyIsTakenForAnother) {
  const std::uint64_t outside = own_pid_namespace();
  const int code = in_new_namespace([&]() -> int {
    if (own_pid_namespace() == outside) return 1;
    const std::uint64_t mine = identity_of(getpid());
    if (mine == 0 || pid_of(mine) != 1) return 2;
    // /proc/1 is the host's init here, not this process.
    if (!is_alive(mine, own_pid_namespace())) return 3;
    const pid_t child = start([] { return 0; });
    const std::uint64_t other = static_cast<std::uint64_t>(child) | std::uint64_t{5} << kPidBits;
    if (!is_alive(other, own_pid_namespace())) return 4;
    if (code_of(child) != 0) return 5;
    return is_alive(other, own_pid_namespace()) ? 6 : 0;  // no such pid: certain
  });
  if (code == kNotAllowed) GTEST_SKIP() << "may not make pid namespaces here";
  EXPECT_EQ(code, 0);
}

TEST(ProcessIdentity, InANamespaceWithItsOwnProcTheLivingAndTheDeadAreTold) {
  const int code = in_new_namespace([]() -> int {
    if (mount("proc", "/proc", "proc", 0, nullptr) != 0) return kNotAllowed;
    const std::uint64_t mine = identity_of(getpid());
    if (pid_of(mine) != 1 || !alive(mine)) return 1;
    const pid_t child = start([] { return 0; });
    const std::uint64_t identity = identity_of(child);
    if (code_of(child) != 0) return 2;
    return alive(identity) ? 3 : 0;
  });
  if (code == kNotAllowed) GTEST_SKIP() << "may not make pid namespaces or mount /proc here";
  EXPECT_EQ(code, 0);
}

TEST(ProcessIdentity, WithoutProcNobodyWhoHasAPidIsDead) {
  const std::uint64_t mine = identity_of(getpid());
  const std::uint64_t space = own_pid_namespace();
  const int code = code_of(start([&]() -> int {
    if (unshare(CLONE_NEWNS) != 0 ||
        mount(nullptr, "/", nullptr, MS_REC | MS_PRIVATE, nullptr) != 0 ||
        mount("tmpfs", "/proc", "tmpfs", 0, nullptr) != 0) {
      return kNotAllowed;
    }
    if (identity_of(getpid()) != 0) return 1;
    return is_alive(mine, space) && is_alive(mine, 0) ? 0 : 2;
  }));
  if (code == kNotAllowed) GTEST_SKIP() << "may not mount over /proc here";
  EXPECT_EQ(code, 0);
}

}  // namespace
}  // namespace vram::base
