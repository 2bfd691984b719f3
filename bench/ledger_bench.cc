// What the ledger adds on the host to an allocation and to a free: its own code alone, no driver.
//
//   ledger_bench [--benchmark_filter=...]
//
// One operation takes 2 MiB under a limit (reserve, commit) or gives it back (begin_release,
// end_release). Threads share one process's account, processes share the job. Times are wall time
// of one operation in each thread or process, all running at once.

#include <benchmark/benchmark.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <new>
#include <vector>

#include "base/process_identity.h"
#include "ledger/devices.h"
#include "ledger/ledger.h"
#include "ledger/slots.h"
#include "wire/job_file.h"

namespace vram {
namespace {

constexpr std::uint64_t kBytes = std::uint64_t{2} << 20;
constexpr std::uint64_t kLimit = std::uint64_t{141} << 30;
constexpr std::uint8_t kCard[16] = {1};

wire::Job& shared_job() {
  static wire::Job* const job = [] {
    void* at = mmap(nullptr, sizeof(wire::Job), PROT_READ | PROT_WRITE,
                    MAP_SHARED | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (at == MAP_FAILED) throw std::bad_alloc();
    auto* made = static_cast<wire::Job*>(at);
    made->header.default_limit = kLimit;
    return made;
  }();
  return *job;
}

ledger::Account join(wire::Job& job) {
  const std::uint32_t device = ledger::find_or_add_device(job, kCard, kLimit);
  const std::uint32_t slot = ledger::claim_slot(
      job, {base::identity_of(getpid()), base::own_pid_namespace()}, ledger::real_world());
  return {&job, device, slot, &ledger::real_world()};
}

// Processes that take and give back without a pause, until destroyed.
class Neighbours {
 public:
  explicit Neighbours(int count) {
    for (int i = 0; i < count; ++i) {
      const pid_t child = fork();
      if (child != 0) {
        children_.push_back(child);
        continue;
      }
      prctl(PR_SET_PDEATHSIG, SIGKILL);
      for (const ledger::Account account = join(shared_job());;) {
        if (!account.reserve(kBytes)) continue;
        account.commit(kBytes);
        account.begin_release(kBytes);
        account.end_release(kBytes);
      }
    }
  }
  ~Neighbours() {
    for (const pid_t child : children_) kill(child, SIGKILL);
    for (const pid_t child : children_) waitpid(child, nullptr, 0);
    (void)ledger::reap(shared_job(), ledger::real_world());
  }

 private:
  std::vector<pid_t> children_;
};

const ledger::Account& own_account() {
  static const ledger::Account account = join(shared_job());
  return account;
}

void take(benchmark::State& state, const ledger::Account& account) {
  if (!account.reserve(kBytes)) state.SkipWithError("refused");
  account.commit(kBytes);
}

void give_back(const ledger::Account& account) {
  account.begin_release(kBytes);
  account.end_release(kBytes);
}

void BM_TakeAndGiveBack(benchmark::State& state) {
  const ledger::Account& account = own_account();
  for ([[maybe_unused]] auto _ : state) {
    take(state, account);
    give_back(account);
  }
}
BENCHMARK(BM_TakeAndGiveBack)->Threads(1)->Threads(8)->UseRealTime();

// In batches: 1,024 blocks of 2 MiB stay below the limit.
constexpr int kBatch = 1024;

void BM_Take(benchmark::State& state) {
  const ledger::Account& account = own_account();
  while (state.KeepRunningBatch(kBatch)) {
    for (int i = 0; i < kBatch; ++i) take(state, account);
    state.PauseTiming();
    for (int i = 0; i < kBatch; ++i) give_back(account);
    state.ResumeTiming();
  }
}
BENCHMARK(BM_Take)->UseRealTime();

void BM_GiveBack(benchmark::State& state) {
  const ledger::Account& account = own_account();
  while (state.KeepRunningBatch(kBatch)) {
    state.PauseTiming();
    for (int i = 0; i < kBatch; ++i) take(state, account);
    state.ResumeTiming();
    for (int i = 0; i < kBatch; ++i) give_back(account);
  }
}
BENCHMARK(BM_GiveBack)->UseRealTime();

void BM_TakeAndGiveBackBesideProcesses(benchmark::State& state) {
  const ledger::Account& account = own_account();
  const Neighbours neighbours(static_cast<int>(state.range(0)));
  for ([[maybe_unused]] auto _ : state) {
    take(state, account);
    give_back(account);
  }
}
BENCHMARK(BM_TakeAndGiveBackBesideProcesses)->Arg(1)->Arg(7)->UseRealTime();

// A request that cannot fit.
void BM_RefuseForGood(benchmark::State& state) {
  const ledger::Account& account = own_account();
  for ([[maybe_unused]] auto _ : state) {
    if (account.reserve(kLimit + 1)) state.SkipWithError("granted");
  }
}
BENCHMARK(BM_RefuseForGood)->UseRealTime();

}  // namespace
}  // namespace vram

int main(int count, char** arguments) {
  benchmark::Initialize(&count, arguments);
  benchmark::AddCustomContext("measured",
                              "host code of the ledger alone, without a driver or a card");
  benchmark::RunSpecifiedBenchmarks();
  return 0;
}
