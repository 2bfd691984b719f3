#include <cstdio>

#include "cli/commands.h"
#include "cli/json.h"
#include "cli/settings.h"
#include "cli/table.h"
#include "host/duration.h"

namespace vram::cli {
namespace {

struct Row {
  const char* name;
  std::optional<std::string> value;
  std::string origin;
};

template <typename T>
std::optional<std::string> named(const std::optional<T>& value) {
  return value ? std::optional<std::string>(name_of(*value)) : std::nullopt;
}

std::optional<std::string> limit_value(const Limit& limit) {
  return limit.empty() ? std::nullopt : std::optional(format_limit(limit));
}

std::optional<std::string> time_value(std::uint64_t ms) {
  return ms != 0 ? std::optional(format_ms(ms)) : std::nullopt;
}

std::vector<Row> rows(const Settings& settings) {
  return {
      {"limit", limit_value(settings.limit.value), settings.limit.origin},
      {"ceiling", limit_value(settings.ceiling.value), settings.ceiling.origin},
      {"reserve", limit_value(settings.reserve.value), settings.reserve.origin},
      {"gpu", settings.gpu.value, settings.gpu.origin},
      {"preallocation", named(settings.preallocation.value), settings.preallocation.origin},
      {"profile", named(settings.profile.value), settings.profile.origin},
      {"alloc", name_of(settings.alloc.value), settings.alloc.origin},
      {"elastic", settings.elastic.value ? "true" : "false", settings.elastic.origin},
      {"park", settings.park.value ? "true" : "false", settings.park.origin},
      {"park_after", time_value(settings.park_after_ms.value), settings.park_after_ms.origin},
      {"wait", settings.wait.value ? "true" : "false", settings.wait.origin},
      {"on_failure", name_of(settings.on_failure.value), settings.on_failure.origin},
      {"quiet", settings.quiet.value ? "true" : "false", settings.quiet.origin},
      {"sim", settings.sim.value, settings.sim.origin},
  };
}

}  // namespace

Result<Done> show_config(const ConfigOptions& options) {
  const Environment environment = real_environment();
  const Result<Settings> settings = resolve_settings({}, environment, settings_files(environment));
  if (!settings) return settings.error();
  if (options.json) {
    Json all = Json::object();
    for (const Row& row : rows(*settings)) {
      all[row.name] = {{"value", optional_json(row.value)}, {"origin", row.origin}};
    }
    std::fputs(dump({{"schema", kJsonSchema}, {"settings", all}}).c_str(), stdout);
    return Done{};
  }
  Table table(options.origin ? std::vector<Table::Column>{{"SETTING"}, {"VALUE"}, {"ORIGIN"}}
                             : std::vector<Table::Column>{{"SETTING"}, {"VALUE"}});
  for (const Row& row : rows(*settings)) {
    std::vector<std::string> cells{row.name, row.value.value_or("-")};
    if (options.origin) cells.push_back(row.origin);
    table.add(std::move(cells));
  }
  std::fputs(table.text(0).c_str(), stdout);
  return Done{};
}

}  // namespace vram::cli
