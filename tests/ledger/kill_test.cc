// SIGKILL at random moments: members that charge and give back without a pause, alone or with
// several threads, are killed wherever they are. After each kill the account is the sum of what the
// living hold, and whenever they pause it is what they say they hold.

#include <gtest/gtest.h>
#include <sched.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <atomic>
#include <chrono>
#include <random>
#include <thread>
#include <vector>

#include "base/process_identity.h"
#include "base/sanitized.h"
#include "ledger/word.h"
#include "members.h"

namespace vram::ledger_tests {
namespace {

constexpr std::uint64_t kG = wire::kGranule;
constexpr std::uint64_t kCap = 1000 * kG;
constexpr int kMembers = 3;
constexpr int kThreads = 3;
constexpr int kPauseEvery = 50;  // kills
constexpr int kRounds = 10;      // each a test of its own, so that they run beside each other
// A sanitizer makes a process slow to start and to die; there, fewer kills do.
constexpr int kKillsEach = (base::kSanitized ? 500 : 10'000) / kRounds;

// What a member says of itself, in memory that outlives it.
struct alignas(64) Truth {
  std::atomic<std::uint64_t> held[kThreads];  // bytes, settled
  std::atomic<int> paused;
};

struct Page {
  std::atomic<bool> pause;
  Truth truth[kMembers];
};

class Hammer {
 public:
  Hammer(const ledger::Account& account, wire::Job& job, Page& page, int member, int thread)
      : account_(account),
        job_(job),
        page_(page),
        truth_(page.truth[member]),
        held_(truth_.held[thread]),
        random_(static_cast<unsigned>(getpid() * 16 + thread)) {}

  [[noreturn]] void run() {
    for (;;) {
      if (page_.pause) wait();
      step();
      // A killed process dies when it next runs: nobody may keep a core for long.
      if (random_() % 64 == 0) sched_yield();
    }
  }

 private:
  void wait() {
    ++truth_.paused;
    while (page_.pause) sched_yield();
    --truth_.paused;
  }

  void step() {
    const std::uint64_t bytes = random_() % (kCap / 4) + 1;
    switch (random_() % 16) {
      case 0:
        (void)ledger::reap(job_, ledger::real_world());
        return;
      case 1:
        return measure_somebody();
      case 2:
        account_.charge(bytes / 100);
        held_ += rounded(bytes / 100);
        return;
      default:
        return held_ > kCap / 4 ? release() : take(bytes);
    }
  }

  static std::uint64_t rounded(std::uint64_t bytes) { return (bytes + kG - 1) / kG * kG; }

  void take(std::uint64_t bytes) {
    const bool taken = random_() % 8 == 0 ? account_.reserve(bytes) : account_.try_reserve(bytes);
    if (!taken) return release();
    if (random_() % 4 == 0) return account_.roll_back(bytes);
    account_.commit(bytes);
    held_ += rounded(bytes);
  }

  void release() {
    const std::uint64_t bytes = held_;
    account_.begin_release(bytes);
    if (random_() % 4 == 0) return account_.keep(bytes);
    held_ = 0;
    account_.end_release(bytes);
  }

  void measure_somebody() {
    const auto slot = static_cast<std::uint32_t>(random_() % kMembers);
    const ledger::Owner owner = ledger::owner_of(job_, slot);
    if (!ledger::occupied(owner.identity)) return;
    const std::uint64_t known = ledger::beside_bytes(job_, account_.device(), slot);
    (void)ledger::measure_beside(job_, account_.device(), slot, owner, known, random_() % 4 * kG);
  }

  const ledger::Account account_;
  wire::Job& job_;
  Page& page_;
  Truth& truth_;
  std::atomic<std::uint64_t>& held_;
  std::minstd_rand random_;
};

struct Member {
  pid_t pid = -1;
  std::uint64_t identity = 0;
  int threads = 0;
};

class Kill : public testing::TestWithParam<int> {
 protected:
  void spawn(int at) {
    Truth& truth = page_->truth[at];
    for (auto& held : truth.held) held = 0;
    truth.paused = 0;
    const int threads = random_() % 4 == 0 ? kThreads : 1;
    const bool opens = random_() % 8 == 0;
    const pid_t pid = start([&]() -> int {
      const ledger::Account account = opens ? join(job_.path()) : join(*job_);
      for (int i = 1; i < threads; ++i) {
        std::thread([&, i] { Hammer(account, *job_, *page_, at, i).run(); }).detach();
      }
      Hammer(account, *job_, *page_, at, 0).run();
    });
    member_[at] = {pid, base::identity_of(pid), threads};
  }

  void bury(int at) {
    // Sometimes a zombie is what there is to reap, sometimes nothing any more.
    const bool first = random_() % 2 == 0;
    if (first) (void)ledger::reap(*job_, ledger::real_world());
    int status = 0;
    ASSERT_EQ(waitpid(member_[at].pid, &status, 0), member_[at].pid);
    ASSERT_TRUE(WIFSIGNALED(status)) << "member ended by itself: " << WEXITSTATUS(status);
    (void)ledger::reap(*job_, ledger::real_world());
  }

  std::uint32_t slot_of(std::uint64_t identity) {
    for (std::uint32_t slot = 0; slot < job_->header.slots_used; ++slot) {
      if ((ledger::identity_in(*job_, slot) & ~ledger::kReaping) == identity) return slot;
    }
    return ledger::kNoSlot;
  }

  const wire::Cell& cell(std::uint32_t slot) { return job_->cell[job_.device()][slot]; }

  // Granules, while others work on: the total and the sum of the shares at one moment.
  void read_sums(std::uint64_t* total, std::uint64_t* shares) {
    const wire::Word128& word = job_->device[job_.device()].total;
    for (;;) {
      const wire::Word128 before = ledger::read(word);
      const ledger::Total last = ledger::unpack(before);
      *shares = 0;
      for (std::uint32_t slot = 0; slot < job_->header.slots_used; ++slot) {
        const bool charge = last.place == ledger::charge_of(slot);
        const bool beside = last.place == ledger::beside_of(slot);
        *shares += charge ? last.share : ledger::read(cell(slot).charge).lo;
        *shares += beside ? last.share : ledger::read(cell(slot).beside).lo;
      }
      *total = last.sum;
      if (ledger::read(word) == before) return;
    }
  }

  void expect_account_is_the_sum_of_the_living(std::uint64_t dead) {
    std::uint64_t total = 0, shares = 0;
    read_sums(&total, &shares);
    ASSERT_EQ(total, shares);
    ASSERT_EQ(slot_of(dead), ledger::kNoSlot) << "a dead member still has a slot";
  }

  void pause() {
    page_->pause = true;
    for (int at = 0; at < kMembers; ++at) {
      const auto late = std::chrono::steady_clock::now() + std::chrono::seconds(30);
      while (page_->truth[at].paused != member_[at].threads) {
        ASSERT_LT(std::chrono::steady_clock::now(), late) << "member " << at << " never paused";
        usleep(100);
      }
    }
  }

  void expect_members_hold_what_they_say() {
    (void)ledger::reap(*job_, ledger::real_world());
    std::uint64_t all = 0;
    for (int at = 0; at < kMembers; ++at) {
      const std::uint32_t slot = slot_of(member_[at].identity);
      ASSERT_NE(slot, ledger::kNoSlot);
      std::uint64_t held = 0;
      for (const auto& part : page_->truth[at].held) held += part;
      const std::uint64_t beside = ledger::beside_bytes(*job_, job_.device(), slot);
      ASSERT_EQ(ledger::share_bytes(*job_, job_.device(), slot), held + beside);
      const ledger::Account account(&*job_, job_.device(), slot, &ledger::real_world());
      ASSERT_EQ(account.own_pending(), 0u);
      all += held + beside;
    }
    ASSERT_EQ(ledger::total_bytes(*job_, job_.device()), all);
  }

  SharedJob job_{kCap};
  Page* page_ = static_cast<Page*>(shared_memory(sizeof(Page)));
  std::array<Member, kMembers> member_;
  std::minstd_rand random_{static_cast<unsigned>(GetParam() + 1)};
};

TEST_P(Kill, LeavesTheAccountTheSumOfTheLivingEachTime) {
  for (int at = 0; at < kMembers; ++at) spawn(at);
  for (int kills = 0, pauses = 0; kills < kKillsEach;) {
    usleep(static_cast<useconds_t>(random_() % 200));
    // One, or several at once: those that follow it round.
    const int first = static_cast<int>(random_() % kMembers);
    const int end = first + 1 + static_cast<int>(random_() % kMembers);
    for (int at = first; at < end; ++at) ASSERT_EQ(kill(member_[at % kMembers].pid, SIGKILL), 0);
    for (int at = first; at < end; ++at, ++kills) {
      const std::uint64_t dead = member_[at % kMembers].identity;
      ASSERT_NO_FATAL_FAILURE(bury(at % kMembers)) << "kill " << kills;
      ASSERT_NO_FATAL_FAILURE(expect_account_is_the_sum_of_the_living(dead)) << "kill " << kills;
    }
    for (int at = first; at < end; ++at) spawn(at % kMembers);
    if (kills < pauses * kPauseEvery) continue;
    ++pauses;
    ASSERT_NO_FATAL_FAILURE(pause()) << "kill " << kills;
    ASSERT_NO_FATAL_FAILURE(expect_members_hold_what_they_say()) << "kill " << kills;
    page_->pause = false;
  }
  for (const Member& member : member_) kill(member.pid, SIGKILL);
  for (int at = 0; at < kMembers; ++at) bury(at);
  EXPECT_EQ(ledger::total_bytes(*job_, job_.device()), 0u);
  EXPECT_LE(job_->header.slots_used, 2 * kMembers) << "slots of the dead are used again";
}

INSTANTIATE_TEST_SUITE_P(Round, Kill, testing::Range(0, kRounds));

}  // namespace
}  // namespace vram::ledger_tests
