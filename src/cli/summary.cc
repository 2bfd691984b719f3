#include "cli/summary.h"

#include "cli/job_list.h"
#include "cli/json.h"
#include "cli/limit_text.h"

namespace vram::cli {
namespace {

std::string describe(const wire::DeviceAccount& account) {
  const std::uint64_t limit = account.limit.load();
  const std::uint64_t denials = account.denials.load();
  std::string text = account.index >= 0 ? "GPU " + std::to_string(account.index) : "GPU ?";
  text += " peak " + format_bytes(account.peak.load()) + " of ";
  text += limit == wire::kUnlimited ? format_bytes(account.capacity) + " (no limit)"
                                    : format_bytes(limit);
  if (denials == 0) return text;
  return text + ", " + std::to_string(denials) + (denials == 1 ? " request" : " requests") +
         " denied (largest " + format_bytes(account.denied_bytes.load()) + ")";
}

std::string counted(std::uint64_t number, const std::string& what) {
  return std::to_string(number) + " " + what + (number == 1 ? "" : "s");
}

Json trace_json(const trace::Summary& summary) {
  return {{"allocations", summary.allocations}, {"frees", summary.frees},
          {"refused", summary.refused},         {"lost", summary.lost},
          {"peak_live", summary.peak},          {"processes", summary.processes},
          {"duration_us", summary.duration_us}, {"file_bytes", summary.file_bytes}};
}

}  // namespace

std::string summarise(const wire::Job& job) {
  std::string text;
  bool used = false;
  for (const wire::DeviceAccount& account : job.device) {
    if (account.key.load() == 0) continue;
    used = used || account.peak.load() != 0 || account.denials.load() != 0;
    text += (text.empty() ? "" : "; ") + describe(account);
  }
  const std::string who = std::string("job ") + job.header.id + ": ";
  return who + (used ? text : "the program took no GPU memory");
}

std::string summarise_as_json(const wire::Job& job, int status,
                              const std::optional<trace::Summary>& trace) {
  Json devices = Json::array();
  for (const wire::DeviceAccount& account : job.device) {
    if (account.key.load() == 0) continue;
    devices.push_back({{"index", account.index >= 0 ? Json(account.index) : Json(nullptr)},
                       {"uuid", format_uuid(account.uuid)},
                       {"limit", limit_json(account.limit.load())},
                       {"peak", account.peak.load()},
                       {"denials", account.denials.load()},
                       {"largest_denied", account.denied_bytes.load()}});
  }
  Json summary{
      {"schema", kJsonSchema}, {"job", job.header.id}, {"status", status}, {"devices", devices}};
  if (trace) summary["trace"] = trace_json(*trace);
  return summary.line();
}

std::string summarise_trace(const std::string& path, const trace::Summary& summary) {
  std::string text = "trace " + path + ": ";
  if (summary.allocations == 0 && summary.refused == 0) {
    return text + "it is empty, for the program allocated no GPU memory";
  }
  text += counted(summary.allocations, "allocation");
  if (summary.refused != 0) text += ", " + std::to_string(summary.refused) + " refused";
  text += ", peak live " + format_bytes(summary.peak);
  if (summary.processes > 1) text += ", " + std::to_string(summary.processes) + " processes";
  if (summary.lost != 0) text += ", " + counted(summary.lost, "event") + " lost";
  return text + ", " + format_bytes(summary.file_bytes);
}

std::string summarise_trace_as_json(const trace::Summary& summary) {
  return Json{{"schema", kJsonSchema}, {"trace", trace_json(summary)}}.line();
}

}  // namespace vram::cli
