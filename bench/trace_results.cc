#include "trace_results.h"

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <fstream>
#include <functional>
#include <nlohmann/json.hpp>

namespace vram::bench {
namespace {

using Json = nlohmann::ordered_json;
using Measure = std::function<std::optional<double>(const TraceResult&)>;

Json json_of(const TraceResult& result) {
  return {{"trace", result.trace},
          {"allocator", result.allocator},
          {"peak_live", result.peak_live},
          {"peak_reserved", result.peak_reserved},
          {"first_ns", result.first_ns},
          {"again_ns", result.again_ns},
          {"smallest_limit", result.smallest_limit ? Json(*result.smallest_limit) : Json(nullptr)},
          {"failure", result.failure}};
}

TraceResult result_of(const Json& json) {
  TraceResult result;
  result.trace = json.at("trace");
  result.allocator = json.at("allocator");
  result.peak_live = json.at("peak_live");
  result.peak_reserved = json.at("peak_reserved");
  result.first_ns = json.at("first_ns");
  result.again_ns = json.at("again_ns");
  if (!json.at("smallest_limit").is_null()) {
    result.smallest_limit = json.at("smallest_limit").get<std::uint64_t>();
  }
  result.failure = json.at("failure");
  return result;
}

const TraceResult* find(const std::vector<TraceResult>& results, const std::string& trace,
                        const std::string& allocator) {
  for (const TraceResult& result : results) {
    if (result.trace == trace && result.allocator == allocator) return &result;
  }
  return nullptr;
}

void put(std::vector<TraceResult>* results, TraceResult result) {
  for (TraceResult& known : *results) {
    if (known.trace != result.trace || known.allocator != result.allocator) continue;
    known = std::move(result);
    return;
  }
  results->push_back(std::move(result));
}

// In the order in which they appear.
std::vector<std::string> names(const std::vector<TraceResult>& results,
                               std::string TraceResult::*name) {
  std::vector<std::string> found;
  for (const TraceResult& result : results) {
    if (std::find(found.begin(), found.end(), result.*name) == found.end()) {
      found.push_back(result.*name);
    }
  }
  return found;
}

std::string number(double value) {
  char text[32];
  std::snprintf(text, sizeof text, value < 100 ? "%.3f" : "%.0f", value);
  return text;
}

std::string cell(const TraceResult* result, const Measure& measure) {
  if (result == nullptr) return "";
  if (!result->failure.empty()) return "failed";
  const std::optional<double> value = measure(*result);
  return value ? number(*value) : "-";
}

struct Column {
  std::string name;
  std::vector<double> values;

  // Of fewer traces than there are, their number beside it.
  [[nodiscard]] std::string with_count(double value, std::size_t traces) const {
    if (values.empty()) return "-";
    return number(value) + (values.size() == traces ? "" : " of " + std::to_string(values.size()));
  }
  [[nodiscard]] double geometric_mean() const {
    double sum = 0;
    for (const double value : values) sum += std::log(value);
    return std::exp(sum / static_cast<double>(values.size()));
  }
  [[nodiscard]] double worst() const {
    return values.empty() ? 0 : *std::max_element(values.begin(), values.end());
  }
};

std::string table_of(const std::string& title, const std::vector<TraceResult>& results,
                     const Measure& measure) {
  const std::vector<std::string> traces = names(results, &TraceResult::trace);
  std::vector<Column> columns;
  std::string head = "| trace | live, MiB |";
  std::string rule = "|---|---|";
  for (const std::string& allocator : names(results, &TraceResult::allocator)) {
    columns.push_back({allocator, {}});
    head += " " + allocator + " |";
    rule += "---|";
  }
  std::string rows;
  for (const std::string& trace : traces) {
    std::uint64_t live = 0;
    std::string row;
    for (Column& column : columns) {
      const TraceResult* result = find(results, trace, column.name);
      row += " " + cell(result, measure) + " |";
      if (result == nullptr) continue;
      live = std::max(live, result->peak_live);
      const std::optional<double> value = measure(*result);
      if (result->failure.empty() && value) column.values.push_back(*value);
    }
    rows += "| " + trace + " | " + std::to_string(live >> 20) + " |" + row + "\n";
  }
  std::string mean = "| geometric mean | |";
  std::string worst = "| worst | |";
  for (const Column& column : columns) {
    mean += " " + column.with_count(column.geometric_mean(), traces.size()) + " |";
    worst += " " + column.with_count(column.worst(), traces.size()) + " |";
  }
  return title + "\n\n" + head + "\n" + rule + "\n" + rows + mean + "\n" + worst + "\n";
}

}  // namespace

bool append_result(const std::string& path, const TraceResult& result) {
  std::ofstream file(path, std::ios::app);
  file << json_of(result).dump(-1, ' ', false, Json::error_handler_t::replace) << "\n";
  file.flush();
  return file.good();
}

bool read_results(const std::string& path, std::vector<TraceResult>* results) {
  std::ifstream file(path);
  if (!file) {
    std::fprintf(stderr, "pool_traces: %s cannot be read\n", path.c_str());
    return false;
  }
  std::string line;
  for (int at = 1; std::getline(file, line); ++at) {
    try {
      put(results, result_of(Json::parse(line)));
    } catch (const Json::exception& error) {
      std::fprintf(stderr, "pool_traces: %s:%d: %s\n", path.c_str(), at, error.what());
      return false;
    }
  }
  return true;
}

std::string tables_of(const std::vector<TraceResult>& results) {
  std::string text = table_of("Peak reserved / peak live:", results, [](const TraceResult& result) {
    return std::optional(static_cast<double>(result.peak_reserved) /
                         static_cast<double>(result.peak_live));
  });
  const bool searched = std::any_of(results.begin(), results.end(), [](const TraceResult& result) {
    return result.smallest_limit.has_value();
  });
  if (searched) {
    text += "\n" + table_of("Smallest limit at which it completes / peak live:", results,
                            [](const TraceResult& result) -> std::optional<double> {
                              if (!result.smallest_limit) return std::nullopt;
                              return static_cast<double>(*result.smallest_limit) /
                                     static_cast<double>(result.peak_live);
                            });
  }
  text += "\n" + table_of("Nanoseconds an event, the first time:", results,
                          [](const TraceResult& result) { return std::optional(result.first_ns); });
  text += "\n" + table_of("Nanoseconds an event, the second time:", results,
                          [](const TraceResult& result) { return std::optional(result.again_ns); });
  for (const TraceResult& result : results) {
    if (result.failure.empty()) continue;
    text += "\n" + result.trace + ", " + result.allocator + ": " + result.failure + "\n";
  }
  return text;
}

}  // namespace vram::bench
