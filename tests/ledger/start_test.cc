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
  double us[kJoins];
};

// Opens the file, takes a slot and an account and backs them, in a fresh process.
double median_join_us(const SharedJob& job, Page& page) {
  for (int i = 0; i < kJoins; ++i) {
    const pid_t child = start([&] {
      const auto start = std::chrono::steady_clock::now();
      const ledger::Account account = join(job.path());
      if (!account.reserve(4096)) return 1;
      account.commit(4096);
      const auto end = std::chrono::steady_clock::now();
      page.us[i] = std::chrono::duration<double, std::micro>(end - start).count();
      return 0;
    });
    EXPECT_TRUE(ended_well(child));
    (void)ledger::reap(*job, ledger::real_world());
  }
  std::sort(page.us, page.us + kJoins);
  return page.us[kJoins / 2];
}

TEST(Start, TakesNotTwiceAsLongBesideAThousandLivingProcesses) {
  const SharedJob job(std::uint64_t{1} << 40);
  Page& page = *static_cast<Page*>(shared_memory(sizeof(Page)));
  const double alone = median_join_us(job, page);
  std::vector<pid_t> living;
  for (int i = 0; i < kMany; ++i) {
    living.push_back(start([&] {
      (void)join(*job);
      ++page.joined;
      for (;;) pause();
      return 0;
    }));
  }
  while (page.joined < kMany) usleep(1000);
  const double beside_many = median_join_us(job, page);
  for (const pid_t member : living) kill(member, SIGKILL);
  for (const pid_t member : living) (void)ended_well(member);
  printf("join: %.1f us alone, %.1f us beside %d processes: %.2f times\n", alone, beside_many,
         kMany, beside_many / alone);
  EXPECT_LE(beside_many, 2 * alone);
  EXPECT_EQ(ledger::reap(*job, ledger::real_world()), static_cast<std::uint32_t>(kMany));
  EXPECT_EQ(ledger::total_bytes(*job, job.device()), 0u);
}

}  // namespace
}  // namespace vram::ledger_tests
