#pragma once

// What is allocated at a moment of a trace, and the most that ever was. Memory grows with what is
// alive, not with the trace.

#include <cstdint>
#include <map>
#include <unordered_map>
#include <vector>

#include "trace/event.h"

namespace vram::trace {

class Live {
 public:
  // Events in the order of the trace.
  void apply(const Event& event);

  // Bytes of a device as the program asked for them; what counts(Way) leaves out is left out.
  struct Device {
    std::uint64_t bytes = 0;
    std::uint64_t peak = 0;
  };
  [[nodiscard]] const std::map<std::uint32_t, Device>& devices() const { return devices_; }
  // Of all devices together, at one moment.
  [[nodiscard]] std::uint64_t bytes() const { return bytes_; }
  [[nodiscard]] std::uint64_t peak() const { return peak_; }

  // Allocation events that are alive, by ID; null: none. The IDs that a process holds, ascending.
  [[nodiscard]] const Event* find(std::uint64_t id) const;
  [[nodiscard]] std::vector<std::uint64_t> held_by(std::uint32_t process) const;
  [[nodiscard]] std::size_t count() const { return alive_.size(); }

 private:
  void add(const Event& event);
  void remove(std::uint64_t id);

  std::unordered_map<std::uint64_t, Event> alive_;
  std::map<std::uint32_t, Device> devices_;
  std::uint64_t bytes_ = 0;
  std::uint64_t peak_ = 0;
};

}  // namespace vram::trace
