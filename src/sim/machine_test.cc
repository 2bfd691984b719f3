#include "sim/machine.h"

#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <csignal>
#include <functional>

namespace vram::sim {
namespace {

constexpr uint64_t kMiB = 1ull << 20;

// The parent only looks; every process that holds memory is a child.
class MachineTest : public ::testing::Test {
 protected:
  void SetUp() override {
    static int number = 0;
    spec_.name = "machine-test-" + std::to_string(::getpid()) + "-" + std::to_string(number++);
    spec_.card_bytes = {100 * kMiB, 100 * kMiB};
    ASSERT_EQ(Machine::open(spec_, &machine_), OpenStatus::kOk);
    ASSERT_EQ(::pipe(to_parent_), 0);
    ASSERT_EQ(::pipe(to_child_), 0);
  }
  void TearDown() override {
    ::unlink(("/dev/shm/vram-sim-" + std::to_string(::geteuid()) + "-" + spec_.name).c_str());
    for (const int fd : {to_parent_[0], to_parent_[1], to_child_[0], to_child_[1]}) ::close(fd);
  }
  // A child with a machine of its own, which says when it has done `work` and then waits.
  pid_t start(const std::function<bool(Machine&)>& work) {
    const pid_t child = ::fork();
    if (child == 0) {
      Machine* own = nullptr;
      const bool done =
          Machine::open(spec_, &own) == OpenStatus::kOk && own->attach() && work(*own);
      const char answer = done ? 'y' : 'n';
      (void)!::write(to_parent_[1], &answer, 1);
      ::pause();
      ::_exit(0);
    }
    char answer = 0;
    EXPECT_EQ(::read(to_parent_[0], &answer, 1), 1);
    EXPECT_EQ(answer, 'y');
    return child;
  }
  static void kill(pid_t child) {
    ::kill(child, SIGKILL);
    ::waitpid(child, nullptr, 0);
  }
  uint64_t used_by(pid_t pid) {
    for (const CardProcess& process : machine_->processes(0)) {
      if (process.pid == pid) return process.used_bytes;
    }
    return 0;
  }

  MachineSpec spec_;
  Machine* machine_ = nullptr;
  int to_parent_[2] = {};
  int to_child_[2] = {};
};

TEST_F(MachineTest, RefusesWhatTheCardHasNot) {
  const pid_t child = start([](Machine& machine) {
    return machine.charge(0, 60 * kMiB) && !machine.charge(0, 41 * kMiB) &&
           machine.charge(0, 40 * kMiB) && machine.charge(1, 100 * kMiB);
  });
  EXPECT_EQ(machine_->used_bytes(0), 100 * kMiB);
  kill(child);
  EXPECT_EQ(machine_->used_bytes(0), 0u);
  EXPECT_EQ(machine_->used_bytes(1), 0u);
}

TEST_F(MachineTest, WhoNeedsMemoryTakesThatOfTheDead) {
  const pid_t first = start([](Machine& machine) { return machine.charge(0, 90 * kMiB); });
  kill(first);
  const pid_t second = start([](Machine& machine) { return machine.charge(0, 90 * kMiB); });
  kill(second);
}

TEST_F(MachineTest, TheOldestHoldIsCharged) {
  const pid_t exporter = start([](Machine& machine) {
    return machine.charge(0, 10 * kMiB) && machine.share(7, 0, 8 * kMiB);
  });
  const pid_t importer =
      start([](Machine& machine) { return machine.hold(7) == Machine::HoldStatus::kOk; });
  EXPECT_EQ(used_by(exporter), 10 * kMiB);
  EXPECT_EQ(used_by(importer), 0u);
  kill(exporter);
  EXPECT_EQ(used_by(importer), 8 * kMiB);
  EXPECT_EQ(machine_->used_bytes(0), 8 * kMiB);
  kill(importer);
  EXPECT_EQ(machine_->used_bytes(0), 0u);
}

TEST_F(MachineTest, AnObjectNobodyHoldsIsGone) {
  const pid_t exporter = start([](Machine& machine) {
    return machine.charge(0, 8 * kMiB) && machine.share(7, 0, 8 * kMiB);
  });
  kill(exporter);
  const pid_t importer =
      start([](Machine& machine) { return machine.hold(7) == Machine::HoldStatus::kNoSuchObject; });
  kill(importer);
}

TEST_F(MachineTest, AnObjectNobodyHoldsIsMadeAnewForItsImporter) {
  const auto import = [](Machine& machine) {
    return machine.hold_or_create(7, 0, 60 * kMiB) == Machine::HoldStatus::kOk;
  };
  const pid_t first = start(import);
  const pid_t second = start(import);
  EXPECT_EQ(used_by(first), 60 * kMiB);
  EXPECT_EQ(used_by(second), 0u);
  const pid_t third = start([](Machine& machine) {
    return machine.hold_or_create(8, 0, 60 * kMiB) == Machine::HoldStatus::kNoRoom;
  });
  kill(first);
  EXPECT_EQ(used_by(second), 60 * kMiB);
  kill(second);
  kill(third);
}

TEST_F(MachineTest, AHolderThatDiesInItsCriticalSectionLeavesTrueFigures) {
  for (int round = 0; round < 100; ++round) {
    const pid_t child = ::fork();
    if (child == 0) {
      Machine* own = nullptr;
      if (Machine::open(spec_, &own) != OpenStatus::kOk || !own->attach()) ::_exit(1);
      for (;;) {
        if (!own->charge(0, 10 * kMiB)) ::_exit(1);
        if (!own->share(5, 0, 4 * kMiB)) ::_exit(1);
        own->drop(5);
        own->uncharge(0, 6 * kMiB);
      }
    }
    ::usleep(static_cast<useconds_t>(300 + 17 * round));
    kill(child);
    ASSERT_EQ(machine_->used_bytes(0), 0u) << round;
  }
}

TEST_F(MachineTest, ClosingAllDescriptorsLosesNothingForGood) {
  const pid_t child = start([this](Machine& machine) {
    if (!machine.charge(0, 10 * kMiB)) return false;
    for (int fd = 3; fd < 2000; ++fd) {
      if (fd != to_parent_[1]) ::close(fd);
    }
    const pid_t looker = ::fork();
    if (looker == 0) {
      Machine* other = nullptr;
      const bool gone = Machine::open(spec_, &other) == OpenStatus::kOk && other->attach() &&
                        other->used_bytes(0) == 0;
      ::_exit(gone ? 0 : 1);
    }
    int status = 0;
    ::waitpid(looker, &status, 0);
    machine.uncharge(0, 4 * kMiB);
    return status == 0 && machine.charge(0, kMiB);
  });
  EXPECT_EQ(used_by(child), 7 * kMiB);
  EXPECT_EQ(machine_->used_bytes(0), 7 * kMiB);
  kill(child);
  EXPECT_EQ(machine_->used_bytes(0), 0u);
}

TEST_F(MachineTest, AnAbandonedMachineMayGetOtherCards) {
  const pid_t child = start([](Machine& machine) { return machine.charge(0, kMiB); });
  MachineSpec other = spec_;
  other.card_bytes = {50 * kMiB};
  Machine* machine = nullptr;
  EXPECT_EQ(Machine::open(other, &machine), OpenStatus::kMismatch);
  kill(child);
  ASSERT_EQ(Machine::open(other, &machine), OpenStatus::kOk);
  EXPECT_EQ(machine->card_count(), 1);
  EXPECT_EQ(machine->used_bytes(0), 0u);
}

TEST_F(MachineTest, ManyProcessesFit) {
  constexpr int kCount = 300;
  std::vector<pid_t> children;
  for (int i = 0; i < kCount; ++i) {
    children.push_back(start([](Machine& machine) { return machine.charge(0, 1000); }));
  }
  EXPECT_EQ(machine_->used_bytes(0), kCount * 1000u);
  EXPECT_EQ(machine_->processes(0).size(), size_t{kCount});
  for (const pid_t child : children) kill(child);
  ::usleep(30'000);  // of so many processes the figures may be 20 ms behind
  EXPECT_EQ(machine_->used_bytes(0), 0u);
}

}  // namespace
}  // namespace vram::sim
