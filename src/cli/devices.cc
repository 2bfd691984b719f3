#include <cstdio>

#include "cli/commands.h"
#include "cli/json.h"
#include "cli/settings.h"
#include "cli/table.h"
#include "host/host.h"
#include "host/job_list.h"
#include "host/limit_text.h"

namespace vram::cli {
namespace {

struct OnCard {
  const JobInfo* job;
  const JobDevice* device;
};

std::vector<OnCard> jobs_on(const probe::Card& card, const JobList& list) {
  std::vector<OnCard> found;
  for (const JobInfo& job : list.jobs) {
    for (const JobDevice& device : job.devices) {
      if (device.card.uuid == card.uuid) found.push_back({&job, &device});
    }
  }
  return found;
}

// What the jobs may take together; "-" when one of them has no limit.
std::string promised_text(const std::vector<OnCard>& jobs) {
  std::uint64_t sum = 0;
  for (const OnCard& entry : jobs) {
    if (entry.device->limit == wire::kUnlimited) return "-";
    sum += entry.device->limit;
  }
  return jobs.empty() ? "0B" : format_bytes(sum);
}

std::string as_text(const std::vector<probe::Card>& cards, const JobList& list) {
  if (cards.empty()) return "no NVIDIA GPU found\n";
  Table table({{"GPU", true},
               {"NAME"},
               {"TOTAL", true},
               {"USED", true},
               {"FREE", true},
               {"JOBS", true},
               {"CAPS", true},
               {"PCI"},
               {"UUID"}});
  for (const probe::Card& card : cards) {
    const std::vector<OnCard> jobs = jobs_on(card, list);
    table.add({std::to_string(card.index), card.mig ? card.name + " (MIG)" : card.name,
               format_bytes(card.capacity()), format_bytes(card.used), format_bytes(card.free),
               std::to_string(jobs.size()), promised_text(jobs), card.pci, card.uuid});
  }
  return table.text(terminal_width());
}

std::string as_json(const std::vector<probe::Card>& cards, const JobList& list) {
  Json devices = Json::array();
  for (const probe::Card& card : cards) {
    Json jobs = Json::array();
    for (const OnCard& entry : jobs_on(card, list)) {
      jobs.push_back({{"id", entry.job->id},
                      {"used", entry.device->used},
                      {"limit", limit_json(entry.device->limit)}});
    }
    devices.push_back({{"index", card.index},
                       {"uuid", card.uuid},
                       {"name", card.name},
                       {"pci", card.pci},
                       {"total", card.capacity()},
                       {"reserved", card.reserved},
                       {"used", card.used},
                       {"free", card.free},
                       {"mig", card.mig},
                       {"jobs", jobs}});
  }
  return dump({{"schema", kJsonSchema}, {"devices", devices}});
}

}  // namespace

Result<Done> show_devices(const DevicesOptions& options) {
  const std::optional<std::string> sim = options.sim ? options.sim : real_environment()("VRAM_SIM");
  const auto host = read_host(sim, find_install_layout(executable_folder()));
  // A host without a driver has no cards to show: an answer, not a failure.
  if (!host && host.error().problem != HostProblem::kNoDriver) return host.error().failure;
  const std::vector<probe::Card> cards = host ? host->cards : std::vector<probe::Card>{};
  const JobList list = list_jobs();
  std::fputs((options.json ? as_json(cards, list) : as_text(cards, list)).c_str(), stdout);
  return Done{};
}

}  // namespace vram::cli
