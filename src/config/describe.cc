#include "config/describe.h"

#include <algorithm>
#include <cstdio>
#include <nlohmann/json.hpp>

#include "base/size_text.h"

namespace vram::config {
namespace {

using Json = nlohmann::ordered_json;

// Raised when a field changes its meaning or goes away.
constexpr int kSchema = 1;

std::string text(std::uint64_t bytes) {
  return bytes == pool::kNoLimit ? "none" : base::format_bytes(bytes).text;
}

const char* mode_name(Mode mode) { return mode == Mode::kCompat ? "compat" : "strict"; }

const char* kind_name(pool::Kind kind) {
  switch (kind) {
    case pool::Kind::kSegments:
      return "segments";
    case pool::Kind::kBfc:
      return "bfc";
    case pool::Kind::kDriverAsync:
      return "driver-async";
    case pool::Kind::kHost:
      return "host";
  }
  return "unknown";
}

std::string percent(double share) {
  char out[32];
  std::snprintf(out, sizeof out, "%.0f%%", share * 100);
  return out;
}

bool is_visible(const Snapshot& snapshot, int card) {
  return std::find(snapshot.visible.begin(), snapshot.visible.end(), card) !=
         snapshot.visible.end();
}

std::string growth_words(bool growth) { return growth ? "on demand" : "all at once"; }

std::string in_force(const Logical& gpu) {
  std::string words = gpu.device.name.substr(sizeof "/device:" - 1) + " " + text(gpu.limit);
  if (gpu.reserve) words += " (" + text(*gpu.reserve) + " reserved)";
  return words + " " + growth_words(gpu.options.growth);
}

// Before initialisation: what was said.
std::string settings_words(const Snapshot& snapshot, const Card& card) {
  const Settings& settings = snapshot.settings;
  std::string words = short_name(card.ordinal);
  const auto limit = settings.limit.find(card.ordinal);
  const auto split = settings.split.find(card.ordinal);
  if (limit != settings.limit.end()) {
    words += " " + text(limit->second.on(Bytes::of(card.total)).count());
  } else if (split == settings.split.end()) {
    words += " up to what is free,";
  }
  if (split != settings.split.end()) {
    words += " " + std::to_string(split->second.size()) + " logical devices";
  }
  const auto growth = settings.growth.find(card.ordinal);
  const bool default_growth = snapshot.mode == Mode::kStrict;
  return words + " " +
         growth_words(growth == settings.growth.end() ? default_growth : growth->second);
}

Json memory_fields(const MemoryInfo& info) {
  return Json{
      {"current", info.current.count()},
      {"peak", info.peak.count()},
      {"limit", info.limit.count() == pool::kNoLimit ? Json(nullptr) : Json(info.limit.count())},
      {"reserved", info.reserved.count()},
      {"peak_reserved", info.peak_reserved.count()},
      {"largest_free", info.largest_free.count()},
      {"largest_request", info.largest_request.count()},
      {"live_blocks", info.live_blocks},
      {"allocations", info.allocations},
      {"failures", info.failures},
      {"fragmentation", info.fragmentation}};
}

Json physical_json(const Snapshot& snapshot, const Card& card) {
  const Settings& settings = snapshot.settings;
  const auto growth = settings.growth.find(card.ordinal);
  const auto limit = settings.limit.find(card.ordinal);
  return Json{{"name", physical_device(card.ordinal).name},
              {"device_type", "GPU"},
              {"model", card.name},
              {"uuid", card.uuid},
              {"pci_bus_id", card.pci_bus_id},
              {"compute_capability", std::to_string(card.major) + "." + std::to_string(card.minor)},
              {"total", card.total},
              {"visible", is_visible(snapshot, card.ordinal)},
              {"growth", growth == settings.growth.end() ? Json(nullptr) : Json(growth->second)},
              {"limit", limit == settings.limit.end()
                            ? Json(nullptr)
                            : Json(limit->second.on(Bytes::of(card.total)).count())}};
}

Json logical_json(const Logical& gpu) {
  return Json{{"name", gpu.device.name},
              {"physical_device", physical_device(gpu.card).name},
              {"limit", gpu.limit},
              {"reserve", gpu.reserve ? Json(*gpu.reserve) : Json(nullptr)},
              {"growth", gpu.options.growth},
              {"priority", gpu.device.priority},
              {"pool", kind_name(gpu.options.kind)}};
}

std::string dump(const Json& json) {
  return json.dump(2, ' ', false, Json::error_handler_t::replace) + "\n";
}

}  // namespace

std::string status_line(const Snapshot& snapshot) {
  std::string line = std::string("vram: ") + mode_name(snapshot.mode) + ", " +
                     std::to_string(snapshot.visible.size()) +
                     (snapshot.visible.size() == 1 ? " GPU" : " GPUs");
  const char* separator = ": ";
  if (!snapshot.gpus.empty()) {
    for (const Logical& gpu : snapshot.gpus) {
      line += separator + in_force(gpu);
      separator = ", ";
    }
    return line;
  }
  for (const int card : snapshot.visible) {
    line += separator + settings_words(snapshot, snapshot.cards[static_cast<std::size_t>(card)]);
    separator = ", ";
  }
  return line;
}

std::string describe_text(const Snapshot& snapshot) {
  std::string out =
      std::string("mode ") + mode_name(snapshot.mode) + ", " +
      (snapshot.initialised_by.empty() ? "not initialised"
                                       : "initialised by " + snapshot.initialised_by) +
      "\n";
  for (const Card& card : snapshot.cards) {
    out += short_name(card.ordinal) + "  " + card.name + "  " + text(card.total) +
           (is_visible(snapshot, card.ordinal) ? "" : "  hidden") + "\n";
    bool any = false;
    for (const Logical& gpu : snapshot.gpus) {
      if (gpu.card != card.ordinal) continue;
      any = true;
      out += "  " + gpu.device.name + "  limit " + text(gpu.limit) +
             (gpu.reserve ? "  reserve " + text(*gpu.reserve) : "") + "  " +
             growth_words(gpu.options.growth) + "  " + kind_name(gpu.options.kind) + " pool\n";
    }
    if (!any && is_visible(snapshot, card.ordinal)) {
      out += "  set: " + settings_words(snapshot, card) + "\n";
    }
  }
  for (const std::string& line : snapshot.diagnostics) out += "note: " + line + "\n";
  return out;
}

std::string describe_json(const Snapshot& snapshot) {
  Json physical = Json::array();
  for (const Card& card : snapshot.cards) physical.push_back(physical_json(snapshot, card));
  Json logical = Json::array();
  for (const Logical& gpu : snapshot.gpus) logical.push_back(logical_json(gpu));
  return dump({{"schema", kSchema},
               {"mode", mode_name(snapshot.mode)},
               {"initialised_by",
                snapshot.initialised_by.empty() ? Json(nullptr) : Json(snapshot.initialised_by)},
               {"physical_devices", std::move(physical)},
               {"logical_devices", std::move(logical)},
               {"diagnostics", snapshot.diagnostics}});
}

std::string memory_text(const Snapshot& snapshot) {
  std::string out;
  for (const Logical& gpu : snapshot.gpus) {
    const MemoryInfo info = gpu.memory->info();
    out += gpu.device.name + "  " + text(info.current.count()) + " used, peak " +
           text(info.peak.count()) + ", " + text(info.reserved.count()) + " held of " +
           text(info.limit.count()) + ", fragmentation " + percent(info.fragmentation) + "\n";
  }
  return out;
}

std::string memory_json(const Snapshot& snapshot) {
  Json devices = Json::array();
  for (const Logical& gpu : snapshot.gpus) {
    Json device{{"name", gpu.device.name}};
    device.update(memory_fields(gpu.memory->info()));
    devices.push_back(std::move(device));
  }
  return dump({{"schema", kSchema}, {"devices", std::move(devices)}});
}

}  // namespace vram::config
