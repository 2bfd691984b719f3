#include "daemon/policy.h"

#include <grp.h>
#include <pwd.h>

#include <algorithm>

#include "host/duration.h"
#include "host/limit_text.h"
#include "probe/process.h"

namespace vram::daemon {
namespace {

using host::Done;
using host::Failure;
using host::Result;
using host::TomlEntry;

constexpr const char* kTopKeys = "idle_after, quantum, host_memory";
constexpr const char* kTables = "[default], [user.NAME], [group.NAME], [card.NUMBER]";
constexpr const char* kRuleKeys = "limit, reserve, may_park, priority";
constexpr std::int64_t kFarthest = 1000;

std::string origin_of(const TomlEntry& entry) { return entry.place + ": " + entry.key; }

Result<std::string> text_of(const TomlEntry& entry, const std::string& example) {
  if (const auto* text = std::get_if<std::string>(&entry.value)) return *text;
  return Failure{origin_of(entry) + " must be a text in quotes, like " + entry.key + " = \"" +
                 example + "\""};
}

Result<base::Size> size_of(const TomlEntry& entry) {
  const Result<std::string> text = text_of(entry, "8GiB");
  if (!text) return text.error();
  return host::parse_size(*text, origin_of(entry));
}

Result<std::uint64_t> time_of(const TomlEntry& entry) {
  const Result<std::string> text = text_of(entry, "2s");
  if (!text) return text.error();
  return host::parse_duration(*text, origin_of(entry));
}

Result<MayPark> may_park_of(const TomlEntry& entry) {
  const Result<std::string> text = text_of(entry, "idle");
  if (!text) return text.error();
  for (const MayPark value : {MayPark::kOwn, MayPark::kIdle, MayPark::kAny}) {
    if (*text == name_of(value)) return value;
  }
  return Failure{origin_of(entry) + ": '" + *text + "' is unknown; use own, idle or any"};
}

Result<Done> take_rule(const TomlEntry& entry, Rule* rule) {
  if (entry.key == "limit" || entry.key == "reserve") {
    const Result<base::Size> size = size_of(entry);
    if (!size) return size.error();
    (entry.key == "limit" ? rule->limit : rule->reserve) = *size;
    return Done{};
  }
  if (entry.key == "may_park") {
    const Result<MayPark> value = may_park_of(entry);
    if (!value) return value.error();
    rule->may_park = *value;
    return Done{};
  }
  if (entry.key == "priority") {
    const auto* number = std::get_if<std::int64_t>(&entry.value);
    if (number == nullptr || *number < -kFarthest || *number > kFarthest) {
      return Failure{origin_of(entry) + " must be a whole number from -1000 to 1000"};
    }
    rule->priority = *number;
    return Done{};
  }
  return Failure{entry.place + ": unknown key '" + entry.key + "' in [" + entry.tables.front() +
                 (entry.tables.size() > 1 ? "." + entry.tables.back() : "") + "]; known are " +
                 kRuleKeys};
}

void fill(const Rule& from, Rule* to) {
  if (!to->limit) to->limit = from.limit;
  if (!to->reserve) to->reserve = from.reserve;
  if (!to->may_park) to->may_park = from.may_park;
  if (!to->priority) to->priority = from.priority;
}

bool names(const std::string& text, const probe::Card& card) {
  if (text == "all" || text == std::to_string(card.index)) return true;
  return text.size() >= 8 && card.uuid.compare(0, text.size(), text) == 0;
}

}  // namespace

const char* name_of(MayPark value) {
  switch (value) {
    case MayPark::kOwn:
      return "own";
    case MayPark::kIdle:
      return "idle";
    case MayPark::kAny:
      break;
  }
  return "any";
}

Standing Policy::of(const User& user) const {
  Rule rule;
  for (const Named& named : users_) {
    if (named.name == user.name || named.name == std::to_string(user.uid)) fill(named.rule, &rule);
  }
  for (const Named& named : groups_) {
    const auto& in = user.groups;
    if (std::find(in.begin(), in.end(), named.name) != in.end()) fill(named.rule, &rule);
  }
  fill(default_, &rule);
  return {rule.limit, rule.reserve, rule.may_park.value_or(MayPark::kOwn),
          rule.priority.value_or(0), origin_};
}

std::uint64_t Policy::budget_on(const probe::Card& card) const {
  std::uint64_t most = card.capacity();
  for (const Budget& budget : budgets_) {
    if (names(budget.card, card)) {
      most = std::min(most, host::bytes_on(budget.size, card.capacity()));
    }
  }
  return most;
}

Rule* Policy::section(const TomlEntry& entry) {
  if (entry.tables.size() == 1 && entry.tables[0] == "default") return &default_;
  if (entry.tables.size() != 2) return nullptr;
  auto* list = entry.tables[0] == "user"    ? &users_
               : entry.tables[0] == "group" ? &groups_
                                            : nullptr;
  if (list == nullptr) return nullptr;
  for (Named& named : *list) {
    if (named.name == entry.tables[1]) return &named.rule;
  }
  list->push_back({entry.tables[1], {}});
  return &list->back().rule;
}

Result<Done> Policy::take_top(const TomlEntry& entry) {
  if (entry.key == "idle_after" || entry.key == "quantum") {
    const Result<std::uint64_t> ms = time_of(entry);
    if (!ms) return ms.error();
    (entry.key == "quantum" ? quantum_ms_ : idle_after_ms_) = *ms;
    return Done{};
  }
  if (entry.key == "host_memory") {
    const Result<base::Size> size = size_of(entry);
    if (!size) return size.error();
    if (size->kind != base::Size::Kind::kBytes) {
      return Failure{origin_of(entry) + " must be in bytes, like host_memory = \"64GiB\""};
    }
    host_memory_ = size->amount;
    return Done{};
  }
  return Failure{entry.place + ": unknown key '" + entry.key + "'; known are " + kTopKeys +
                 " and the tables " + kTables};
}

Result<Done> Policy::take_card(const TomlEntry& entry) {
  if (entry.key != "budget") {
    return Failure{entry.place + ": unknown key '" + entry.key + "' in [card." +
                   entry.tables.back() + "]; known is budget"};
  }
  const Result<base::Size> size = size_of(entry);
  if (!size) return size.error();
  budgets_.push_back({entry.tables.back(), *size});
  return Done{};
}

Result<Done> Policy::take(const TomlEntry& entry) {
  const std::size_t depth = entry.tables.size();
  if (std::holds_alternative<TomlEntry::Table>(entry.value)) {
    const std::string& top = depth == 0 ? entry.key : entry.tables[0];
    const bool has_names = top == "user" || top == "group" || top == "card";
    if ((depth == 0 && (has_names || top == "default")) || (depth == 1 && has_names)) return Done{};
    return Failure{entry.place + ": unknown table '" + entry.key + "'; known are " + kTables};
  }
  if (depth == 0) return take_top(entry);
  if (depth == 2 && entry.tables[0] == "card") return take_card(entry);
  if (Rule* rule = section(entry)) return take_rule(entry, rule);
  return Failure{entry.place + ": '" + entry.key + "' stands in [" + entry.tables[0] +
                 "] itself; write [" + entry.tables[0] + ".NAME]"};
}

Result<Policy> read_policy(const std::string& path) {
  const Result<host::TomlFile> file = host::read_toml(path);
  if (!file) return file.error();
  if (file->missing) return Failure{path + ": there is no such file; correct --policy"};
  Policy policy;
  policy.origin_ = path;
  for (const TomlEntry& entry : file->entries) {
    if (const Result<Done> taken = policy.take(entry); !taken) return taken.error();
  }
  return policy;
}

User look_up_user(std::uint32_t uid) {
  User user{uid, probe::user_name(uid), {}};
  const passwd* entry = getpwuid(uid);
  if (entry == nullptr) return user;
  std::vector<gid_t> ids(64);
  int count = static_cast<int>(ids.size());
  if (getgrouplist(entry->pw_name, entry->pw_gid, ids.data(), &count) < 0) {
    ids.resize(static_cast<std::size_t>(count));
    if (getgrouplist(entry->pw_name, entry->pw_gid, ids.data(), &count) < 0) return user;
  }
  for (int i = 0; i < count; ++i) {
    const group* found = getgrgid(ids[static_cast<std::size_t>(i)]);
    if (found != nullptr) user.groups.emplace_back(found->gr_name);
  }
  return user;
}

}  // namespace vram::daemon
