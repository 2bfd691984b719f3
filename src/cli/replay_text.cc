#include <algorithm>
#include <cstdio>
#include <map>

#include "cli/json.h"

#include "cli/failure.h"
#include "cli/replay.h"
#include "cli/table.h"
#include "host/limit_text.h"

namespace vram::cli {
namespace {

// Over the traces that a pool completed.
struct Mean {
  std::string pool;
  std::size_t traces = 0;
  double ratio = 0;
  double worst = 0;
};

std::vector<Mean> means_of(const std::vector<Replayed>& replays) {
  std::vector<Mean> means;
  for (const Replayed& replayed : replays) {
    auto mean = std::find_if(means.begin(), means.end(),
                             [&](const Mean& known) { return known.pool == replayed.pool; });
    if (mean == means.end()) mean = means.insert(means.end(), {replayed.pool});
    if (!replayed.completed()) continue;
    ++mean->traces;
    mean->ratio += replayed.outcome.ratio();
    mean->worst = std::max(mean->worst, replayed.outcome.ratio());
  }
  for (Mean& mean : means) {
    if (mean.traces > 0) mean.ratio /= static_cast<double>(mean.traces);
  }
  return means;
}

std::string decimals(double number, int places) {
  char text[32];
  std::snprintf(text, sizeof text, "%.*f", places, number);
  return text;
}

// A name of a file may hold anything; a terminal's commands are not to get through.
std::string printable(std::string name) {
  for (char& c : name) {
    if (static_cast<unsigned char>(c) < 0x20 || c == 0x7f) c = '?';
  }
  return name;
}

std::string without_folder(const std::string& path) { return path.substr(path.rfind('/') + 1); }

std::vector<std::string> cells(const Replayed& replayed, Searched searched) {
  const replay::PoolOutcome& outcome = replayed.outcome;
  std::vector<std::string> row{printable(without_folder(replayed.trace)), replayed.pool};
  if (replayed.unavailable) {
    row.insert(row.end(), searched == Searched::kYes ? 4 : 3, "-");
    row.emplace_back("not here");
    row.insert(row.end(), 4, "-");
    return row;
  }
  row.insert(row.end(), {format_bytes(outcome.peak_live), format_bytes(outcome.peak_reserved),
                         outcome.peak_live == 0 ? "-" : decimals(outcome.ratio(), 3)});
  if (searched == Searched::kYes) {
    row.push_back(replayed.smallest_limit ? format_bytes(*replayed.smallest_limit) : "-");
  }
  row.insert(row.end(), {outcome.stop ? "stopped" : "complete", std::to_string(outcome.steps),
                         std::to_string(outcome.allocations),
                         outcome.pages_mapped == 0 ? "-" : std::to_string(outcome.pages_mapped),
                         decimals(outcome.step_ns, 0)});
  return row;
}

std::vector<std::string> mean_cells(const Mean& mean, Searched searched) {
  std::vector<std::string> row{"mean of " + std::to_string(mean.traces), mean.pool, "", ""};
  row.push_back(mean.traces == 0 ? "-" : decimals(mean.ratio, 3));
  if (searched == Searched::kYes) row.emplace_back();
  row.push_back(mean.traces == 0 ? "" : "worst " + decimals(mean.worst, 3));
  row.insert(row.end(), 4, "");
  return row;
}

std::string counted(std::uint64_t number, const std::string& what) {
  return std::to_string(number) + " " + what + (number == 1 ? "" : "s");
}

std::string left_out(const replay::Recorded& recorded) {
  std::string text;
  const auto add = [&](std::uint64_t number, const std::string& one, const std::string& more) {
    if (number == 0) return;
    text += (text.empty() ? "" : ", ") + counted(number, one) + more;
  };
  add(recorded.refused, "request", " that the recorded program was refused");
  add(recorded.zero_bytes, "allocation", " of no bytes");
  add(recorded.foreign, "allocation", " that something else counts");
  return text;
}

// Lines about a trace, whatever the pool.
std::string about(const Replayed& replayed) {
  const replay::Recorded& recorded = *replayed.recorded;
  const std::string trace = printable(replayed.trace) + ": ";
  std::string text;
  if (recorded.processes > 1 || recorded.devices > 1) {
    text += trace + "process " + std::to_string(recorded.process) + " (" +
            std::to_string(recorded.processes) + " allocate) on device " +
            std::to_string(recorded.device) + " (" + std::to_string(recorded.devices) +
            " in use) alone; choose with --process and --device\n";
  }
  if (const std::string out = left_out(recorded); !out.empty()) {
    text += trace + "left out: " + out + "\n";
  }
  if (recorded.lost > 0) text += trace + counted(recorded.lost, "event") + " lost in recording\n";
  if (recorded.truncated) text += trace + "it stops in the middle; what is there was replayed\n";
  return text;
}

std::string why_not_complete(const Replayed& replayed) {
  const std::string who = printable(replayed.trace) + ", " + replayed.pool + ": ";
  if (replayed.unavailable || !replayed.outcome.stop) return "";
  const replay::Stop& stop = *replayed.outcome.stop;
  const bool limited = replayed.limit != pool::kNoLimit;
  return who + "stopped at event " + std::to_string(stop.step) + " of " +
         std::to_string(replayed.events) + ": " + format_bytes(stop.bytes) + " asked for, with " +
         format_bytes(stop.live) + " live and " + format_bytes(stop.reserved) + " reserved of " +
         (limited ? "a limit of " + format_bytes(replayed.limit)
                  : "a card of " + format_bytes(replayed.card)) +
         "\n";
}

Json stop_json(const std::optional<replay::Stop>& stop) {
  if (!stop) return nullptr;
  return {{"event", stop->step},
          {"bytes", stop->bytes},
          {"live", stop->live},
          {"reserved", stop->reserved}};
}

Json replayed_json(const Replayed& replayed) {
  const replay::Recorded& recorded = *replayed.recorded;
  const replay::PoolOutcome& outcome = replayed.outcome;
  Json json{{"trace", replayed.trace},
            {"pool", replayed.pool},
            {"process", recorded.process},
            {"processes", recorded.processes},
            {"device", recorded.device},
            {"devices", recorded.devices},
            {"truncated", recorded.truncated},
            {"lost", recorded.lost},
            {"left_out",
             {{"refused", recorded.refused},
              {"zero_bytes", recorded.zero_bytes},
              {"foreign", recorded.foreign}}},
            {"events", replayed.events},
            {"card", replayed.card},
            {"limit", limit_json(replayed.limit)},
            {"unavailable", optional_json(replayed.unavailable)}};
  if (replayed.unavailable) return json;
  json.update({{"completed", replayed.completed()},
               {"replayed", outcome.steps},
               {"allocations", outcome.allocations},
               {"peak_live", outcome.peak_live},
               {"peak_reserved", outcome.peak_reserved},
               {"ratio", outcome.peak_live == 0 ? Json(nullptr) : Json(outcome.ratio())},
               {"ns_per_event", outcome.step_ns},
               {"pages_mapped", outcome.pages_mapped},
               {"bytes_mapped", outcome.bytes_mapped},
               {"smallest_limit", optional_json(replayed.smallest_limit)},
               {"stopped", stop_json(outcome.stop)}});
  return json;
}

}  // namespace

std::string replays_as_text(const std::vector<Replayed>& replays, Searched searched,
                            const std::string& card) {
  std::vector<Table::Column> columns{
      {"TRACE"}, {"POOL"}, {"LIVE", true}, {"RESERVED", true}, {"RATIO", true}};
  if (searched == Searched::kYes) columns.push_back({"SMALLEST", true});
  columns.insert(
      columns.end(),
      {{"RESULT"}, {"EVENTS", true}, {"ALLOCS", true}, {"PAGES", true}, {"NS/EVENT", true}});
  Table table(columns);
  std::string notes;
  std::map<std::string, std::string> missing;  // pools, once for all traces
  const Replayed* last = nullptr;
  for (const Replayed& replayed : replays) {
    table.add(cells(replayed, searched));
    if (last == nullptr || last->recorded != replayed.recorded) notes += about(replayed);
    notes += why_not_complete(replayed);
    if (replayed.unavailable) missing[replayed.pool] = *replayed.unavailable;
    last = &replayed;
  }
  for (const auto& [pool, why] : missing) notes += pool + ": " + why + "\n";
  const bool several = replays.front().recorded != replays.back().recorded;
  for (const Mean& mean : means_of(replays)) {
    if (several) table.add(mean_cells(mean, searched));
  }
  return card + "\n" + table.text(terminal_width()) + notes;
}

std::string replays_as_json(const std::vector<Replayed>& replays, const std::string& card) {
  Json list = Json::array();
  for (const Replayed& replayed : replays) list.push_back(replayed_json(replayed));
  Json pools = Json::array();
  for (const Mean& mean : means_of(replays)) {
    const bool none = mean.traces == 0;
    pools.push_back({{"pool", mean.pool},
                     {"completed", mean.traces},
                     {"mean_ratio", none ? Json(nullptr) : Json(mean.ratio)},
                     {"worst_ratio", none ? Json(nullptr) : Json(mean.worst)}});
  }
  return dump({{"schema", kJsonSchema}, {"card", card}, {"replays", list}, {"pools", pools}});
}

}  // namespace vram::cli
