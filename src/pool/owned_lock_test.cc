#include "pool/owned_lock.h"

#include <gtest/gtest.h>

#include <thread>
#include <vector>

namespace vram::pool {
namespace {

// Counts without an atomic, which only a lock makes right.
void expect_exclusion(std::uint64_t others) {
  OwnedLock lock;
  std::uint64_t count = 0;
  constexpr std::uint64_t kOwners = 1'000'000;
  std::vector<std::thread> threads;
  threads.emplace_back([&] {
    for (std::uint64_t i = 0; i < kOwners; ++i) {
      const Inside hold(lock);
      ++count;
    }
  });
  for (int t = 0; t < 2; ++t) {
    threads.emplace_back([&] {
      for (std::uint64_t i = 0; i < others; ++i) {
        const Locked<OwnedLock> hold(lock);
        ++count;
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(count, kOwners + 2 * others);
}

// In this order: the second lasts for the process.
TEST(OwnedLock, ExcludesByBarriersOfItsOwn) { expect_exclusion(100'000); }
TEST(OwnedLock, ExcludesByBarriersOfTheKernel) {
  base::KernelBarrier::prepare();
  expect_exclusion(3'000);
}

}  // namespace
}  // namespace vram::pool
