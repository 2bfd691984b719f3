// Refusals while many threads of the same job take and give back without a
// pause.

#include <gtest/gtest.h>

#include <algorithm>
#include <chrono>
#include <thread>
#include <vector>

#include "base/process_identity.h"
#include "ledger/test_job.h"

namespace vram::ledger {
namespace {

constexpr std::uint64_t kG = wire::kGranule;
using Clock = std::chrono::steady_clock;

// Threads that reserve and give back one granule each, until destroyed.
class Churn {
 public:
  Churn(const Account& account, int threads) {
    for (int i = 0; i < threads; ++i) {
      threads_.emplace_back([this, account] {
        while (!stop_.load(std::memory_order_relaxed)) {
          if (!account.try_reserve(kG)) continue;
          account.commit(kG);
          account.begin_release(kG);
          account.end_release(kG);
        }
      });
    }
  }
  ~Churn() {
    stop_ = true;
    for (std::thread& thread : threads_) thread.join();
  }

 private:
  std::atomic<bool> stop_{false};
  std::vector<std::thread> threads_;
};

class HopelessRequest : public testing::TestWithParam<int> {};

TEST_P(HopelessRequest, IsRefusedWithin50MsWhileThreadsChurn) {
  const int threads = GetParam();
  TestJob job;
  const std::uint32_t device = job.add_device(1000 * kG);
  const Account account(&*job, device, claim_slot(*job, {1, 0}, real_world()), &real_world());
  const auto held = (1000 - static_cast<std::uint64_t>(threads)) * kG;
  ASSERT_TRUE(account.reserve(held));
  account.commit(held);
  std::vector<double> took_ms;
  {
    const Churn churn(account, threads);
    for (int i = 0; i < 51; ++i) {
      const auto start = Clock::now();
      EXPECT_FALSE(account.reserve(static_cast<std::uint64_t>(threads + 1) * kG));
      took_ms.push_back(std::chrono::duration<double, std::milli>(Clock::now() - start).count());
    }
  }
  std::sort(took_ms.begin(), took_ms.end());
  printf("%d threads: refused after %.2f ms (median), %.2f ms (worst of %zu)\n", threads,
         took_ms[took_ms.size() / 2], took_ms.back(), took_ms.size());
  EXPECT_LT(took_ms[took_ms.size() / 2], 50.0);
}

INSTANTIATE_TEST_SUITE_P(, HopelessRequest, testing::Values(1, 8, 64));

}  // namespace
}  // namespace vram::ledger
