#include "replay/recorded.h"

#include <sys/stat.h>

#include <charconv>
#include <map>
#include <set>

#include "trace/reader.h"

namespace vram::replay {
namespace {

struct Share {
  WorkloadBuilder builder;
  std::uint64_t zero_bytes = 0;
  std::uint64_t refused = 0;
  std::uint64_t foreign = 0;
};

struct Place {
  std::uint32_t process;
  std::uint32_t device;
  auto operator<=>(const Place&) const = default;
};

class Shares {
 public:
  void apply(const trace::Event& event) {
    switch (event.kind) {
      case trace::Kind::kAlloc:
        return allocate(event);
      case trace::Kind::kFree:
        return free(event);
      case trace::Kind::kRefused:
        ++shares_[{event.process, event.device}].refused;
        return;
      case trace::Kind::kLost:
        lost += event.count;
        return;
      case trace::Kind::kProcessEnd:
      case trace::Kind::kProcessBegin:
      case trace::Kind::kCaptureBegin:
      case trace::Kind::kCaptureEnd:
        return;
    }
  }

  base::Expected<Recorded, std::string> choose(const Choice& choice) {
    Recorded recorded;
    std::set<std::uint32_t> processes, devices;
    const Place* best = nullptr;
    for (const auto& [place, share] : shares_) {
      if (share.builder.workload().allocations == 0) continue;
      processes.insert(place.process);
      devices.insert(place.device);
      if (choice.process.value_or(place.process) != place.process) continue;
      if (choice.device.value_or(place.device) != place.device) continue;
      if (best == nullptr || peak(place) > peak(*best)) best = &place;
    }
    if (best == nullptr) return why_not(choice, processes, devices);
    Share& share = shares_[*best];
    recorded.workload = share.builder.take();
    recorded.process = best->process;
    recorded.device = best->device;
    recorded.processes = static_cast<std::uint32_t>(processes.size());
    recorded.devices = static_cast<std::uint32_t>(devices.size());
    recorded.zero_bytes = share.zero_bytes;
    recorded.refused = share.refused;
    recorded.foreign = share.foreign;
    recorded.lost = lost;
    return recorded;
  }

  std::uint64_t lost = 0;

 private:
  [[nodiscard]] std::uint64_t peak(const Place& place) const {
    return shares_.at(place).builder.workload().peak_live;
  }

  void allocate(const trace::Event& event) {
    const Place place{event.process, event.device};
    Share& share = shares_[place];
    if (!trace::counts(event.way)) {
      ++share.foreign;
    } else if (event.bytes == 0) {
      ++share.zero_bytes;
    } else {
      share.builder.allocate(event.id, event.bytes, event.stream);
      place_of_[event.id] = place;
    }
  }

  // Of what is not in a workload there is nothing to free.
  void free(const trace::Event& event) {
    const auto place = place_of_.find(event.id);
    if (place == place_of_.end()) return;
    WorkloadBuilder& builder = shares_[place->second].builder;
    if (event.order == trace::Order::kStream) {
      builder.free(event.id, event.stream);
    } else {
      builder.free(event.id);
    }
    place_of_.erase(place);
  }

  static std::string listed(const std::set<std::uint32_t>& numbers) {
    std::string text;
    for (const std::uint32_t number : numbers) {
      text += (text.empty() ? "" : ", ") + std::to_string(number);
    }
    return text;
  }

  static std::string why_not(const Choice& choice, const std::set<std::uint32_t>& processes,
                             const std::set<std::uint32_t>& devices) {
    if (processes.empty()) return "it has no allocation to replay";
    if (choice.process && processes.count(*choice.process) == 0) {
      return "process " + std::to_string(*choice.process) +
             " allocates nothing in it; those that do: " + listed(processes);
    }
    if (choice.device && devices.count(*choice.device) == 0) {
      return "nothing is allocated on device " + std::to_string(*choice.device) +
             " in it; devices with allocations: " + listed(devices);
    }
    return "process " + std::to_string(*choice.process) + " allocates nothing on device " +
           std::to_string(*choice.device);
  }

  std::map<Place, Share> shares_;
  std::unordered_map<std::uint64_t, Place> place_of_;  // of blocks that are alive
};

std::uint64_t card_bytes(const trace::Facts& facts, std::uint32_t device) {
  const auto text = trace::find_fact(facts, "device" + std::to_string(device) + ".bytes");
  std::uint64_t bytes = 0;
  if (!text) return 0;
  const char* end = text->data() + text->size();
  const auto [at, error] = std::from_chars(text->data(), end, bytes);
  return error == std::errc() && at == end ? bytes : 0;
}

bool is_directory(const std::string& path) {
  struct stat status {};
  return stat(path.c_str(), &status) == 0 && S_ISDIR(status.st_mode);
}

}  // namespace

base::Expected<Recorded, std::string> read_recorded(const std::string& path, const Choice& choice) {
  if (is_directory(path)) return path + ": it is a directory; name a trace in it";
  auto reader = trace::Reader::open(path);
  if (!reader) return reader.error();
  Shares shares;
  trace::Event event;
  for (;;) {
    const auto more = reader->next(&event);
    if (!more) return more.error();
    if (!*more) break;
    shares.apply(event);
  }
  auto recorded = shares.choose(choice);
  if (!recorded) return path + ": " + recorded.error();
  recorded->card_bytes = card_bytes(reader->facts(), recorded->device);
  recorded->truncated = reader->truncated();
  return recorded;
}

}  // namespace vram::replay
