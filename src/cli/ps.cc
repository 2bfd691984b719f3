#include <algorithm>
#include <cstdio>

#include "cli/commands.h"
#include "cli/daemon_status.h"
#include "cli/json.h"
#include "cli/parking_text.h"
#include "cli/settings.h"
#include "cli/table.h"
#include "host/host.h"
#include "host/job_list.h"
#include "host/limit_text.h"
#include "probe/process.h"

namespace vram::cli {
namespace {

// A process that holds memory of a card and is in no job.
struct Ungoverned {
  probe::Card card;
  std::optional<std::uint64_t> used;
  probe::Process process;
};

bool is_governed(const JobList& list, const probe::Card& card, std::int32_t pid) {
  for (const JobInfo& job : list.jobs) {
    for (const JobDevice& device : job.devices) {
      if (device.card.uuid != card.uuid) continue;
      for (const JobProcess& process : device.processes) {
        if (process.pid == pid) return true;
      }
    }
  }
  return false;
}

// Absent: there is no driver to ask.
std::optional<std::vector<Ungoverned>> find_ungoverned(const JobList& list,
                                                       const std::optional<std::string>& sim) {
  const auto host = read_host(sim, find_install_layout(executable_folder()));
  if (!host) return std::nullopt;
  std::vector<Ungoverned> found;
  for (const probe::Card& card : host->cards) {
    const auto processes = host->nvml->processes(card.index);
    if (!processes) continue;
    for (const probe::CardProcess& process : *processes) {
      if (is_governed(list, card, process.pid)) continue;
      found.push_back({card, process.used, probe::read_process(process.pid)});
    }
  }
  return found;
}

std::string user_text(std::optional<std::uint32_t> uid) {
  return uid ? probe::user_name(*uid) : "?";
}

std::string percent_text(std::uint64_t used, std::uint64_t limit) {
  if (limit == wire::kUnlimited || limit == 0) return "-";
  const double share = 100.0 * static_cast<double>(used) / static_cast<double>(limit);
  char text[16];
  std::snprintf(text, sizeof text, "%.0f%%", share);
  return text;
}

std::string card_text(const JobInfo& job, const JobDevice& device) {
  const std::string number =
      device.card.index >= 0 ? std::to_string(device.card.index) : std::string("?");
  return (job.simulated ? "sim" : "") + number;
}

std::string limit_text(std::uint64_t limit) {
  return limit == wire::kUnlimited ? "-" : format_bytes(limit);
}

std::string job_text(const JobInfo& job) {
  return job.name.empty() ? job.id : job.id + " (" + job.name + ")";
}

// Of an elastic process it matters more where its memory is than that it runs.
std::string state_text(const JobProcess& process) {
  if (!process.parking) return process.state;
  const std::string place = describe(process.parking->place, process.parking->bytes);
  const bool unremarkable = process.state == "running" || process.state == "?";
  return unremarkable ? place : process.state + ", " + place;
}

void add_device(const JobInfo& job, const JobDevice& device, Table* table) {
  if (device.processes.size() > 1) {
    table->add({job_text(job), "all " + std::to_string(device.processes.size()),
                probe::user_name(job.uid), card_text(job, device), format_bytes(device.used),
                limit_text(device.limit), percent_text(device.used, device.limit),
                format_bytes(device.peak), std::to_string(device.denials), "", job.command});
  }
  for (const JobProcess& process : device.processes) {
    table->add({job_text(job), process.pid ? std::to_string(*process.pid) : "?",
                user_text(process.uid), card_text(job, device), format_bytes(process.used),
                limit_text(device.limit), percent_text(process.used, device.limit),
                format_bytes(process.peak), std::to_string(process.denials), state_text(process),
                process.command});
  }
}

// A job none of whose processes took memory.
void add_waiting_job(const JobInfo& job, Table* table) {
  std::string cards, limits;
  for (const JobDevice& device : job.devices) {
    cards += (cards.empty() ? "" : ",") + card_text(job, device);
    const std::string limit = limit_text(device.limit);
    if (limits != limit) limits += (limits.empty() ? "" : ",") + limit;
  }
  const std::string pid = job.main_pid       ? std::to_string(*job.main_pid)
                          : job.pids.empty() ? "?"
                                             : std::to_string(job.pids.front());
  table->add({job_text(job), pid, probe::user_name(job.uid), cards.empty() ? "-" : cards, "0B",
              limits.empty() ? "-" : limits, "0%", "0B", "0",
              job.admission == wire::Admission::kWaiting ? "waits to be admitted" : "no memory",
              job.command});
}

std::string seconds_text(std::uint32_t ms) { return std::to_string((ms + 999) / 1000) + " s"; }

// Below the table: cards on which jobs take turns.
std::string turns_text(const JobList& list, const std::optional<std::vector<CardStatus>>& cards) {
  const auto number = [&](const std::string& uuid) -> std::string {
    for (const JobInfo& job : list.jobs) {
      for (const JobDevice& device : job.devices) {
        if (device.card.uuid == uuid) return card_text(job, device);
      }
    }
    return uuid;
  };
  const auto said = [](const std::string& id) {
    return id == "other" ? "another user's job" : "job " + id;
  };
  std::string text;
  for (const CardStatus& card : cards.value_or(std::vector<CardStatus>{})) {
    if (card.holder.empty()) continue;
    text += "GPU " + number(card.uuid) + ": it is the turn of " + said(card.holder) + " for " +
            seconds_text(card.left_ms) + " more; " + said(card.waiting) + " waits\n";
  }
  return text;
}

std::string as_text(const JobList& list, const std::optional<std::vector<Ungoverned>>& ungoverned) {
  if (list.jobs.empty() && (!ungoverned || ungoverned->empty())) {
    return "no program holds GPU memory\n";
  }
  Table table({{"JOB"},
               {"PID", true},
               {"USER"},
               {"GPU", true},
               {"USED", true},
               {"CAP", true},
               {"%CAP", true},
               {"PEAK", true},
               {"DENIED", true},
               {"STATE"},
               {"COMMAND"}});
  for (const JobInfo& job : list.jobs) {
    const bool waiting =
        std::all_of(job.devices.begin(), job.devices.end(),
                    [](const JobDevice& device) { return device.processes.empty(); });
    if (waiting) add_waiting_job(job, &table);
    for (const JobDevice& device : job.devices) add_device(job, device, &table);
  }
  for (const Ungoverned& entry : ungoverned.value_or(std::vector<Ungoverned>{})) {
    table.add({"-", std::to_string(entry.process.pid), user_text(entry.process.uid),
               std::to_string(entry.card.index), entry.used ? format_bytes(*entry.used) : "?", "-",
               "-", "?", "-", "ungoverned", entry.process.command.value_or("?")});
  }
  return table.text(terminal_width());
}

Json process_json(const JobProcess& process) {
  const std::optional<JobParking>& parking = process.parking;
  const auto said = [&](auto JobParking::*field) {
    return parking ? Json((*parking).*field) : Json(nullptr);
  };
  return {
      {"pid", optional_json(process.pid)},
      {"uid", optional_json(process.uid)},
      {"used", process.used},
      {"peak", process.peak},
      {"denials", process.denials},
      {"state", process.state},
      {"command", process.command},
      {"place", parking ? optional_json(name_of(parking->place)) : Json(nullptr)},
      {"parked_bytes", said(&JobParking::bytes)},
      {"times_parked", said(&JobParking::times)},
      {"last_move_us", said(&JobParking::last_move_us)},
      {"last_refusal", parking ? optional_json(name_of(parking->last_refusal)) : Json(nullptr)}};
}

Json device_json(const JobDevice& device) {
  Json processes = Json::array();
  for (const JobProcess& process : device.processes) processes.push_back(process_json(process));
  return {{"index", device.card.index >= 0 ? Json(device.card.index) : Json(nullptr)},
          {"uuid", device.card.uuid},
          {"name", device.card.name},
          {"total", device.card.total != 0 ? Json(device.card.total) : Json(nullptr)},
          {"used", device.used},
          {"limit", limit_json(device.limit)},
          {"reserve", device.reserve},
          {"peak", device.peak},
          {"denials", device.denials},
          {"processes", processes}};
}

Json admission_json(wire::Admission admission) {
  switch (admission) {
    case wire::Admission::kWaiting:
      return "waiting";
    case wire::Admission::kAdmitted:
      return "admitted";
    case wire::Admission::kNotAsked:
      break;
  }
  return nullptr;
}

// Null without a daemon.
Json turns_json(const std::optional<std::vector<CardStatus>>& cards) {
  if (!cards) return nullptr;
  Json turns = Json::array();
  for (const CardStatus& card : *cards) {
    if (card.holder.empty()) continue;
    turns.push_back({{"uuid", card.uuid},
                     {"job", card.holder},
                     {"waiting", card.waiting},
                     {"left_ms", card.left_ms}});
  }
  return turns;
}

std::string as_json(const JobList& list, const std::optional<std::vector<Ungoverned>>& ungoverned,
                    const std::optional<std::vector<CardStatus>>& cards) {
  Json jobs = Json::array();
  for (const JobInfo& job : list.jobs) {
    Json devices = Json::array();
    for (const JobDevice& device : job.devices) devices.push_back(device_json(device));
    jobs.push_back({{"id", job.id},
                    {"name", job.name.empty() ? Json(nullptr) : Json(job.name)},
                    {"uid", job.uid},
                    {"pid", optional_json(job.main_pid)},
                    {"command", job.command},
                    {"created_unix_ns", job.created_unix_ns},
                    {"simulated", job.simulated},
                    {"elastic", job.elastic},
                    {"admission", admission_json(job.admission)},
                    {"devices", devices}});
  }
  Json others = nullptr;
  if (ungoverned) {
    others = Json::array();
    for (const Ungoverned& entry : *ungoverned) {
      others.push_back({{"pid", entry.process.pid},
                        {"uid", optional_json(entry.process.uid)},
                        {"index", entry.card.index},
                        {"uuid", entry.card.uuid},
                        {"used", optional_json(entry.used)},
                        {"command", optional_json(entry.process.command)}});
    }
  }
  return dump({{"schema", kJsonSchema},
               {"jobs", jobs},
               {"ungoverned", others},
               {"turns", turns_json(cards)},
               {"unreadable", list.unreadable}});
}

}  // namespace

Result<Done> show_jobs(const PsOptions& options) {
  const std::optional<std::string> sim = options.sim ? options.sim : real_environment()("VRAM_SIM");
  if (options.sim) {
    const Result<std::string> machine = read_simulation(*options.sim, "--sim");
    if (!machine) return machine.error();
  }
  const JobList list = list_jobs();
  const auto ungoverned = find_ungoverned(list, sim);
  const auto cards = ask_daemon_status();
  if (options.json) {
    std::fputs(as_json(list, ungoverned, cards).c_str(), stdout);
    return Done{};
  }
  std::fputs(as_text(list, ungoverned).c_str(), stdout);
  std::fputs(turns_text(list, cards).c_str(), stdout);
  for (const std::string& problem : list.unreadable) {
    std::fprintf(stderr, "vram: not shown: %s\n", problem.c_str());
  }
  return Done{};
}

}  // namespace vram::cli
