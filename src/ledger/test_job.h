#pragma once

// A job in anonymous shared memory and a world whose dead, clock and naps a
// test decides.

#include <sys/mman.h>

#include <atomic>
#include <cstdint>
#include <cstring>
#include <functional>
#include <new>
#include <set>

#include "ledger/devices.h"
#include "ledger/ledger.h"
#include "ledger/slots.h"

namespace vram::ledger {

// Fork shares it: what a child does to the job the parent sees.
class TestJob {
 public:
  TestJob() {
    void* at = mmap(nullptr, sizeof(wire::Job), PROT_READ | PROT_WRITE,
                    MAP_SHARED | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (at == MAP_FAILED) throw std::bad_alloc();
    job_ = static_cast<wire::Job*>(at);
    job_->header.default_limit = wire::kUnlimited;
  }
  ~TestJob() { munmap(job_, sizeof(wire::Job)); }
  TestJob(const TestJob&) = delete;
  TestJob& operator=(const TestJob&) = delete;

  wire::Job& operator*() const { return *job_; }
  wire::Job* operator->() const { return job_; }

  // Cards are numbered from 1 here; their accounts from 0.
  std::uint32_t add_device(std::uint64_t limit) {
    std::uint8_t uuid[16] = {};
    uuid[0] = ++devices_;
    const std::uint32_t device = find_or_add_device(*job_, uuid, 0);
    job_->device[device].limit.store(limit);
    return device;
  }

 private:
  wire::Job* job_ = nullptr;
  std::uint8_t devices_ = 0;
};

// One at a time: a World has no state of its own.
class FakeWorld {
 public:
  FakeWorld() { current() = this; }
  ~FakeWorld() { current() = nullptr; }
  FakeWorld(const FakeWorld&) = delete;
  FakeWorld& operator=(const FakeWorld&) = delete;

  const World* get() const { return &world_; }

  std::set<std::uint64_t> dead;         // identities
  std::function<void()> on_nap;         // called before the clock moves
  std::atomic<std::uint64_t> clock{0};  // ms
  std::atomic<std::uint64_t> naps{0};

 private:
  static FakeWorld*& current() {
    static FakeWorld* world = nullptr;
    return world;
  }
  static bool alive(std::uint64_t identity, std::uint64_t) {
    return current()->dead.count(identity) == 0;
  }
  static void sleep(const std::uint32_t*, std::uint32_t, std::uint32_t) {
    FakeWorld& self = *current();
    ++self.naps;
    if (self.on_nap) self.on_nap();
    ++self.clock;
  }
  static std::uint64_t now_ms() { return current()->clock; }

  World world_{alive, now_ms, sleep};
};

}  // namespace vram::ledger
