#pragma once

// What the daemon sees at one moment, and how it names what it saw. All decisions are made from
// this and from the policy; nothing else of the host is asked.

#include <cstdint>
#include <functional>
#include <string>
#include <tuple>
#include <vector>

#include "daemon/policy.h"
#include "host/job_list.h"
#include "ledger/parking.h"
#include "probe/nvml.h"

namespace vram::daemon {

inline constexpr std::uint64_t kMs = 1'000'000;  // of the times here, which are in ns

// The job files are read before the cards are asked: memory that a file shows as taken then misses
// on the card, too, and not the other way round.
struct Sight {
  std::uint64_t now_ns = 0;  // CLOCK_BOOTTIME, as the times in job files
  std::vector<host::JobInfo> jobs;
  std::vector<probe::Card> cards;
};

// A process of a job, across sights.
struct ProcessKey {
  std::string path;  // of the job file
  std::uint32_t slot = 0;
  std::uint64_t identity = 0;
  std::uint64_t pid_namespace = 0;

  auto tie() const { return std::tie(path, slot, identity, pid_namespace); }
  bool operator==(const ProcessKey& other) const { return tie() == other.tie(); }
  bool operator<(const ProcessKey& other) const { return tie() < other.tie(); }
};
ProcessKey key_of(const host::JobInfo& job, const host::JobMember& member);

// A job and one of its processes, in a sight; null: it is not there any more.
struct Found {
  const host::JobInfo* job = nullptr;
  const host::JobMember* member = nullptr;
  explicit operator bool() const { return member != nullptr; }
};
Found find(const Sight& sight, const ProcessKey& key);

const probe::Card* find_card(const Sight& sight, const std::string& uuid);
// Which of the job's devices it is; devices.size(): none.
std::size_t device_on(const host::JobInfo& job, const std::string& uuid);
host::JobShare share_on(const Found& found, const std::string& uuid);
// Of all its processes, without calls under way.
std::uint64_t settled_on(const host::JobInfo& job, const std::string& uuid);

// Where the memory is once it has been moved so.
bool is_there(ledger::Move move, wire::Place place);
// For long enough to be moved for others; who is parked in part does not work either.
bool idles(const Sight& sight, const Policy& policy, const host::JobMember& member);

std::string say_job(const host::JobInfo& job);  // "k3fa (alice)"

using StandingOf = std::function<Standing(std::uint32_t uid)>;

}  // namespace vram::daemon
