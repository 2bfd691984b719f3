// Joining a job costs about the same whether one or a thousand processes live in it.

#include <gtest/gtest.h>
#include <signal.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <vector>

#include "members.h"

namespace vram::ledger_tests {
namespace {

constexpr int kMany = 1000;
constexpr int kJoins = 101;

struct Page {
  std::atomic<int> joined;
  double us;
};

// Opens the file, takes a slot and an account and backs them, in a fresh process.
double join_us(const SharedJob& job, double* us) {
  const pid_t child = start([&] {
    const auto start = std::chrono::steady_clock::now();
    const ledger::Account account = join(job.path());
    if (!account.reserve(4096)) return 1;
    account.commit(4096);
    const auto end = std::chrono::steady_clock::now();
    *us = std::chrono::duration<double, std::micro>(end - start).count();
    return 0;
  });
  EXPECT_TRUE(ended_well(child));
  (void)ledger::reap(*job, ledger::real_world());
  return *us;
}

double median(std::vector<double> values) {
  std::sort(values.begin(), values.end());
  return values[values.size() / 2];
}

TEST(Start, TakesNotTwiceAsLongBesideAThousandLivingProcesses) {
  const SharedJob empty(std::uint64_t{1} << 40);
  const SharedJob crowded(std::uint64_t{1} << 40);
  Page& page = *static_cast<Page*>(shared_memory(sizeof(Page)));
  std::vector<pid_t> living;
  for (int i = 0; i < kMany; ++i) {
    living.push_back(start([&] {
      (void)join(*crowded);
      ++page.joined;
      for (;;) pause();
      return 0;
    }));
  }
  while (page.joined < kMany) usleep(1000);
  // In turns: whatever else the machine does meets both.
  std::vector<double> alone, beside_many;
  for (int i = 0; i < kJoins; ++i) {
    alone.push_back(join_us(empty, &page.us));
    beside_many.push_back(join_us(crowded, &page.us));
  }
  for (const pid_t member : living) kill(member, SIGKILL);
  for (const pid_t member : living) (void)ended_well(member);
  const double ratio = median(beside_many) / median(alone);
  printf("join: %.1f us alone, %.1f us beside %d processes: %.2f times\n", median(alone),
         median(beside_many), kMany, ratio);
  EXPECT_LE(ratio, 2);
  EXPECT_EQ(ledger::reap(*crowded, ledger::real_world()), static_cast<std::uint32_t>(kMany));
  EXPECT_EQ(ledger::total_bytes(*crowded, crowded.device()), 0u);
}

}  // namespace
}  // namespace vram::ledger_tests
