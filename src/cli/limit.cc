#include <cstdio>

#include "cli/commands.h"
#include "cli/json.h"
#include "cli/settings.h"
#include "cli/visibility.h"
#include "host/job_list.h"
#include "host/job_pages.h"
#include "host/limit_text.h"
#include "ledger/devices.h"

namespace vram::cli {
namespace {

struct Change {
  const JobDevice* device;
  std::uint64_t limit;  // bytes; wire::kUnlimited: none
};

std::string on_card(const probe::Card& card) {
  return card.index >= 0 ? "card " + std::to_string(card.index) : "card " + card.uuid;
}

Result<std::uint64_t> new_limit(const base::Size& size, const probe::Card& card) {
  if (card.capacity() == 0 && size.kind == base::Size::Kind::kPermille) {
    return Failure{"the size of " + on_card(card) + " is not known; write the limit in GiB"};
  }
  const std::uint64_t bytes = bytes_on(size, card.capacity());
  if (card.capacity() != 0 && bytes > card.capacity()) {
    return Failure{format_bytes(bytes) + " is more than " + on_card(card) + " has (" +
                   format_bytes(card.capacity()) + "); use less, or none"};
  }
  return bytes;
}

Result<std::vector<Change>> plan_changes(const JobInfo& job, const std::string& text) {
  std::vector<Change> changes;
  if (text == "none") {
    for (const JobDevice& device : job.devices) changes.push_back({&device, wire::kUnlimited});
    return changes;
  }
  const Result<Limit> limit = parse_limit(text, "limit");
  if (!limit) return limit.error();
  if (limit->every) {
    for (const JobDevice& device : job.devices) {
      const Result<std::uint64_t> bytes = new_limit(*limit->every, device.card);
      if (!bytes) return bytes.error();
      changes.push_back({&device, *bytes});
    }
    return changes;
  }
  std::vector<probe::Card> cards;
  for (const JobDevice& device : job.devices) cards.push_back(device.card);
  for (const Limit::ForCard& entry : limit->cards) {
    const Result<std::size_t> found = find_card(entry.card, cards, "job " + job.id);
    if (!found) return found.error();
    const Result<std::uint64_t> bytes = new_limit(entry.size, cards[*found]);
    if (!bytes) return bytes.error();
    changes.push_back({&job.devices[*found], *bytes});
  }
  return changes;
}

Result<Done> check_ceiling(const std::vector<Change>& changes) {
  const Result<Setting<Limit>> ceiling = read_ceiling(settings_files(real_environment()).system);
  if (!ceiling) return ceiling.error();
  for (const Change& change : changes) {
    const probe::Card& card = change.device->card;
    std::uint64_t highest = wire::kUnlimited;
    if (ceiling->value.every) highest = bytes_on(*ceiling->value.every, card.capacity());
    for (const Limit::ForCard& entry : ceiling->value.cards) {
      if (find_card(entry.card, {card}, "")) highest = bytes_on(entry.size, card.capacity());
    }
    if (change.limit <= highest) continue;
    return Failure{format_bytes(change.limit) + " on " + on_card(card) +
                   " is over the ceiling of this system (" + format_bytes(highest) + ", " +
                   ceiling->origin + "); use " + format_bytes(highest) + " or less"};
  }
  return Done{};
}

void apply(const JobPages& pages, const std::vector<Change>& changes) {
  for (const Change& change : changes) {
    for (std::size_t d = 0; d < wire::kMaxDevices; ++d) {
      wire::DeviceAccount& account = pages->device[d];
      if (account.key.load() != 0 && format_uuid(account.uuid) == change.device->card.uuid) {
        ledger::set_limit(account, change.limit);
      }
    }
  }
}

// For cards which the job has not met.
Result<Done> apply_default(const JobPages& pages, const std::string& text) {
  std::uint64_t bytes = wire::kUnlimited;
  std::uint32_t permille = 0;
  if (text != "none") {
    const Result<Limit> limit = parse_limit(text, "limit");
    if (!limit) return limit.error();
    if (!limit->every) return Done{};
    if (limit->every->kind == base::Size::Kind::kBytes) {
      bytes = bytes_on(*limit->every, 0);
    } else {
      permille = static_cast<std::uint32_t>(limit->every->amount);
    }
  }
  __atomic_store_n(&pages->header.default_limit, bytes, __ATOMIC_RELEASE);
  __atomic_store_n(&pages->header.default_limit_permille, permille, __ATOMIC_RELEASE);
  return Done{};
}

void print_text(const JobInfo& job, const std::vector<Change>& changes) {
  if (changes.empty()) std::printf("job %s: it has used no card yet\n", job.id.c_str());
  for (const Change& change : changes) {
    const JobDevice& device = *change.device;
    std::printf("job %s: GPU %s: limit %s, was %s", job.id.c_str(),
                device.card.index >= 0 ? std::to_string(device.card.index).c_str() : "?",
                format_bytes(change.limit).c_str(), format_bytes(device.limit).c_str());
    if (device.used > change.limit) {
      std::printf("; %s are in use: new requests are refused until less than the limit is",
                  format_bytes(device.used).c_str());
    }
    std::printf("\n");
  }
}

void print_json(const JobInfo& job, const std::vector<Change>& changes) {
  Json devices = Json::array();
  for (const Change& change : changes) {
    const JobDevice& device = *change.device;
    devices.push_back({{"index", device.card.index >= 0 ? Json(device.card.index) : Json(nullptr)},
                       {"uuid", device.card.uuid},
                       {"limit", limit_json(change.limit)},
                       {"previous", limit_json(device.limit)},
                       {"used", device.used}});
  }
  std::fputs(dump({{"schema", kJsonSchema}, {"job", job.id}, {"devices", devices}}).c_str(),
             stdout);
}

}  // namespace

Result<Done> change_limit(const LimitOptions& options) {
  const Result<JobInfo> job = find_job(list_jobs(), options.job);
  if (!job) return job.error();
  const Result<std::vector<Change>> changes = plan_changes(*job, options.limit);
  if (!changes) return changes.error();
  if (const Result<Done> fine = check_ceiling(*changes); !fine) return fine;
  const Result<JobPages> pages = open_for_writing(*job);
  if (!pages) return pages.error();
  apply(*pages, *changes);
  if (const Result<Done> done = apply_default(*pages, options.limit); !done) return done;
  if (options.json) {
    print_json(*job, *changes);
  } else {
    print_text(*job, *changes);
  }
  return Done{};
}

}  // namespace vram::cli
