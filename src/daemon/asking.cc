#include "daemon/asking.h"

#include <csetjmp>
#include <csignal>

#include "host/job_pages.h"
#include "ledger/devices.h"
#include "ledger/slots.h"

namespace vram::daemon {
namespace {

// Where a write that hits a missing page goes on; null: nothing is being written.
sigjmp_buf* g_way_out = nullptr;

void on_missing_page(int number) {
  if (g_way_out != nullptr) siglongjmp(*g_way_out, 1);
  // Not ours: what it would have been without us.
  std::signal(number, SIG_DFL);
  std::raise(number);
}

// `write` must not own anything: it may be left in the middle.
template <typename Write>
bool guarded(Write write) {
  sigjmp_buf way_out;
  // The signal's mask is saved, so that the next one is taken, too.
  if (sigsetjmp(way_out, 1) != 0) {
    g_way_out = nullptr;
    return false;
  }
  g_way_out = &way_out;
  const bool done = write();
  g_way_out = nullptr;
  return done;
}

template <typename Write>
bool write_into(const host::JobInfo& job, Write write) {
  const host::Result<host::JobPages> pages = host::open_for_writing(job);
  if (!pages) return false;
  wire::Job& mapped = **pages;
  return guarded([&mapped, &write] { return write(mapped); });
}

}  // namespace

void survive_cut_files() {
  struct sigaction action {};
  action.sa_handler = on_missing_page;
  sigemptyset(&action.sa_mask);
  sigaction(SIGBUS, &action, nullptr);
}

bool ask_to_move(const host::JobInfo& job, const host::JobMember& member, ledger::Move move,
                 const ledger::Amount& amount) {
  return write_into(job, [&](wire::Job& mapped) {
    if (!(ledger::owner_of(mapped, member.slot) == member.owner)) return false;
    ledger::ask(mapped.parking[member.slot], move, amount);
    return true;
  });
}

bool write_waiting(const host::JobInfo& job) {
  return write_into(job, [](wire::Job& mapped) {
    mapped.header.admission.store(wire::Admission::kWaiting);
    return true;
  });
}

bool write_admitted(const host::JobInfo& job, const std::vector<Terms>& terms) {
  return write_into(job, [&](wire::Job& mapped) {
    for (const Terms& card : terms) {
      const std::size_t at = device_on(job, card.uuid);
      if (at == job.devices.size()) continue;
      wire::DeviceAccount& account = mapped.device[job.devices[at].account];
      __atomic_store_n(&account.reserve, card.reserve, __ATOMIC_RELEASE);
      if (account.limit.load() != card.limit) ledger::set_limit(account, card.limit);
    }
    mapped.header.admission.store(wire::Admission::kAdmitted);
    return true;
  });
}

bool write_stay_limit(const host::JobInfo& job, const host::JobDevice& device,
                      std::uint64_t bytes) {
  return write_into(job, [&](wire::Job& mapped) {
    mapped.device[device.account].stay_limit.store(bytes);
    return true;
  });
}

}  // namespace vram::daemon
