#include "trace/live.h"

#include <algorithm>

namespace vram::trace {

void Live::apply(const Event& event) {
  if (event.kind == Kind::kAlloc) return add(event);
  if (event.kind == Kind::kFree) return remove(event.id);
  if (event.kind != Kind::kProcessEnd) return;
  for (const std::uint64_t id : held_by(event.process)) remove(id);
}

void Live::add(const Event& event) {
  if (!alive_.emplace(event.id, event).second || !counts(event.way)) return;
  Device& device = devices_[event.device];
  device.bytes += event.bytes;
  bytes_ += event.bytes;
  device.peak = std::max(device.peak, device.bytes);
  peak_ = std::max(peak_, bytes_);
}

void Live::remove(std::uint64_t id) {
  const auto found = alive_.find(id);
  if (found == alive_.end()) return;
  const Event& event = found->second;
  if (counts(event.way)) {
    devices_[event.device].bytes -= event.bytes;
    bytes_ -= event.bytes;
  }
  alive_.erase(found);
}

const Event* Live::find(std::uint64_t id) const {
  const auto found = alive_.find(id);
  return found == alive_.end() ? nullptr : &found->second;
}

std::vector<std::uint64_t> Live::held_by(std::uint32_t process) const {
  std::vector<std::uint64_t> ids;
  for (const auto& [id, event] : alive_) {
    if (event.process == process) ids.push_back(id);
  }
  std::sort(ids.begin(), ids.end());
  return ids;
}

}  // namespace vram::trace
