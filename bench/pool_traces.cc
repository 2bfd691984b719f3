// What allocators make of recorded traces, side by side: peak reserved over peak live, time, and
// the smallest limit that does.
//
//   pool_traces [--dry] [--peer LIBRARY]... [--only NAME] [--smallest-limit] [--json FILE] TRACE...
//   pool_traces --table FILE...
//
// One allocator is open at a time, and a fresh one for each trace, with a real stream for each of
// the trace's. --dry: vram's pools alone, on a card of bookkeeping. --only: allocators with NAME in
// their name. --json adds the results to FILE, a line each, so that runs of several processes (an
// allocator's settings are often a process's) come together in one --table.

#include <algorithm>
#include <cstdio>
#include <exception>
#include <filesystem>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "peers/own.h"
#include "replay/device.h"
#include "replay/recorded.h"
#include "replay/replay.h"
#include "trace_results.h"

namespace {

using vram::bench::Allocator;
using vram::bench::TraceResult;
namespace replay = vram::replay;

constexpr std::uint64_t kDryCard = std::uint64_t{141} << 30;
constexpr std::uint64_t kLeastPrecision = std::uint64_t{2} << 20;
// Of peak live: a search has to end, and a peer's probe may take seconds.
constexpr std::uint64_t kPrecisionShare = 256;

struct Settings {
  bool dry = false;
  bool smallest_limit = false;
  std::string only, json;
  std::vector<std::string> peers, traces, tables;
};

class AllocatorTarget final : public replay::Target {
 public:
  AllocatorTarget(Allocator& allocator, const std::vector<CUstream>& streams)
      : allocator_(allocator), streams_(streams) {}
  std::uint64_t allocate(std::uint64_t bytes, std::uint32_t stream) override {
    return reinterpret_cast<std::uintptr_t>(allocator_.allocate(bytes, streams_[stream]));
  }
  void free(std::uint64_t block, std::uint64_t bytes, std::uint32_t stream) override {
    allocator_.free(reinterpret_cast<void*>(block), bytes, streams_[stream]);
  }
  std::uint64_t reserved() override { return allocator_.reserved(); }
  std::uint64_t peak_reserved() override { return allocator_.peak_reserved(); }

 private:
  Allocator& allocator_;
  const std::vector<CUstream>& streams_;
};

// An allocator between open() and close(), whatever it throws.
class Opened {
 public:
  Opened(Allocator& allocator, std::size_t limit)
      : allocator_(allocator), open_(allocator.open(limit)) {}
  ~Opened() {
    if (!open_) return;
    try {
      allocator_.trim();
      allocator_.close();
    } catch (...) {
      fprintf(stderr, "pool_traces: %s threw on closing\n", allocator_.name().c_str());
    }
  }
  Opened(const Opened&) = delete;
  Opened& operator=(const Opened&) = delete;
  explicit operator bool() const { return open_; }

 private:
  Allocator& allocator_;
  bool open_;
};

std::string why_stopped(const replay::Stop& stop, std::size_t steps) {
  return "refused " + std::to_string(stop.bytes) + " bytes at event " + std::to_string(stop.step) +
         " of " + std::to_string(steps) + ", with " + std::to_string(stop.live) + " live and " +
         std::to_string(stop.reserved) + " reserved";
}

// The result's failure is empty when it completes.
void replay_twice(const replay::Workload& workload, Allocator& allocator,
                  const std::vector<CUstream>& streams, TraceResult* result) {
  const Opened opened(allocator, 0);
  if (!opened) {
    result->failure = "does not open";
    return;
  }
  AllocatorTarget target(allocator, streams);
  const replay::Outcome first = replay::run(workload, target, 1);
  result->peak_reserved = first.peak_reserved;
  result->first_ns = first.step_ns;
  if (first.stop) {
    result->failure = why_stopped(*first.stop, workload.steps.size());
    return;
  }
  result->again_ns = replay::run(workload, target, 1).step_ns;
}

bool completes(const replay::Workload& workload, Allocator& allocator,
               const std::vector<CUstream>& streams, std::uint64_t limit) {
  const Opened opened(allocator, limit);
  if (!opened) return false;
  AllocatorTarget target(allocator, streams);
  return !replay::run(workload, target, 1).stop;
}

std::optional<std::uint64_t> search(const replay::Workload& workload, Allocator& allocator,
                                    const std::vector<CUstream>& streams, const TraceResult& result,
                                    std::uint64_t card) {
  const std::uint64_t precision = std::max(workload.peak_live / kPrecisionShare, kLeastPrecision);
  return replay::smallest_limit(
      {workload.peak_live, result.peak_reserved, card,
       precision / kLeastPrecision * kLeastPrecision},
      [&](std::uint64_t limit) { return completes(workload, allocator, streams, limit); });
}

TraceResult measure(const std::string& trace, const replay::Workload& workload,
                    Allocator& allocator, replay::Device& device, const Settings& settings) {
  TraceResult result;
  result.trace = trace;
  result.allocator = allocator.name();
  result.peak_live = workload.peak_live;
  const std::vector<CUstream>& streams = device.streams(workload.streams);
  if (streams.size() < workload.streams) {
    result.failure = "the driver makes no " + std::to_string(workload.streams) + " streams";
    return result;
  }
  try {
    replay_twice(workload, allocator, streams, &result);
    if (result.failure.empty() && settings.smallest_limit) {
      result.smallest_limit = search(workload, allocator, streams, result, device.bytes());
    }
  } catch (const std::exception& error) {
    result.failure = std::string("threw: ") + error.what();
  } catch (...) {
    result.failure = "threw";
  }
  return result;
}

// Empty: the reason is on the error stream.
std::vector<std::unique_ptr<Allocator>> allocators(const replay::Device& device,
                                                   const Settings& settings) {
  std::vector<std::unique_ptr<Allocator>> all;
  all.push_back(vram::bench::segments(device.driver()));
  all.push_back(vram::bench::bfc(device.driver()));
  if (!settings.dry) all.push_back(vram::bench::driver_async(device.driver()));
  for (const std::string& path : settings.peers) {
    auto loaded = vram::bench::peer(path);
    if (loaded == nullptr) return {};
    all.push_back(std::move(loaded));
  }
  all.erase(std::remove_if(all.begin(), all.end(),
                           [&](const std::unique_ptr<Allocator>& allocator) {
                             return allocator->name().find(settings.only) == std::string::npos;
                           }),
            all.end());
  if (all.empty()) {
    fprintf(stderr, "pool_traces: no allocator has '%s' in its name\n", settings.only.c_str());
  }
  return all;
}

// NAME.gz and NAME.vtrace.gz are two traces.
std::string name_of(const std::string& path) {
  const std::filesystem::path file = std::filesystem::path(path).filename();
  return file.extension() == ".gz" ? file.stem() : file;
}

int measure_all(const Settings& settings) {
  std::unique_ptr<replay::Device> device;
  if (settings.dry) {
    device = replay::Device::dry(kDryCard);
  } else {
    auto real = replay::Device::real();
    if (!real) {
      fprintf(stderr, "pool_traces: %s\n", real.error().c_str());
      return 1;
    }
    device = std::move(*real);
  }
  const auto all = allocators(*device, settings);
  if (all.empty()) return 1;
  std::vector<TraceResult> results;
  for (const std::string& path : settings.traces) {
    const auto recorded = replay::read_recorded(path, {});
    if (!recorded) {
      fprintf(stderr, "pool_traces: %s\n", recorded.error().c_str());
      return 1;
    }
    for (const auto& allocator : all) {
      fprintf(stderr, "%s, %s\n", path.c_str(), allocator->name().c_str());
      results.push_back(measure(name_of(path), recorded->workload, *allocator, *device, settings));
      if (!settings.json.empty() && !append_result(settings.json, results.back())) {
        fprintf(stderr, "pool_traces: %s cannot be written\n", settings.json.c_str());
        return 1;
      }
    }
  }
  printf("%s", tables_of(results).c_str());
  return 0;
}

int show_tables(const std::vector<std::string>& paths) {
  std::vector<TraceResult> results;
  for (const std::string& path : paths) {
    if (!vram::bench::read_results(path, &results)) return 1;
  }
  printf("%s", tables_of(results).c_str());
  return 0;
}

// False: the reason is on the error stream.
bool parse(int argc, char** argv, Settings* settings) {
  bool table = false;
  for (int i = 1; i < argc; ++i) {
    const std::string word = argv[i];
    std::string* text = word == "--only"   ? &settings->only
                        : word == "--json" ? &settings->json
                                           : nullptr;
    const bool takes_value = text != nullptr || word == "--peer";
    if (takes_value && i + 1 == argc) {
      fprintf(stderr, "pool_traces: %s needs a value\n", word.c_str());
      return false;
    }
    if (text != nullptr) {
      *text = argv[++i];
    } else if (word == "--peer") {
      settings->peers.emplace_back(argv[++i]);
    } else if (word == "--dry") {
      settings->dry = true;
    } else if (word == "--smallest-limit") {
      settings->smallest_limit = true;
    } else if (word == "--table") {
      table = true;
    } else if (word.rfind("--", 0) == 0) {
      fprintf(stderr, "pool_traces: unknown option %s\n", word.c_str());
      return false;
    } else {
      (table ? settings->tables : settings->traces).push_back(word);
    }
  }
  if (!settings->traces.empty() || !settings->tables.empty()) return true;
  fprintf(stderr, "pool_traces: no trace, and no table\n");
  return false;
}

}  // namespace

int main(int argc, char** argv) {
  Settings settings;
  if (!parse(argc, argv, &settings)) return 2;
  try {
    return settings.tables.empty() ? measure_all(settings) : show_tables(settings.tables);
  } catch (const std::exception& error) {
    fprintf(stderr, "pool_traces: %s\n", error.what());
    return 1;
  }
}
