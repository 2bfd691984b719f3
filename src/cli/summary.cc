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

std::string summarise_as_json(const wire::Job& job, int status) {
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
  return Json{
      {"schema", kJsonSchema}, {"job", job.header.id}, {"status", status}, {"devices", devices}}
      .dump();
}

}  // namespace vram::cli
