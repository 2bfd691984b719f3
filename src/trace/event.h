#pragma once

// What a recorded trace consists of; docs/user/trace-format.md has the file.

#include <cstdint>
#include <optional>
#include <string>

#include "wire/trace_log.h"

namespace vram::trace {

// How memory was taken. In a file the default, kAsync, has no word.
using Way = wire::Way;
using wire::kWayCount;

// As in a file: "pool", "alloc" ...; of kAsync "async".
const char* word_of(Way way);
std::optional<Way> way_of(const std::string& word);

// The memory is the process's own, taken now: what adds up to what it holds.
bool counts(Way way);
// Ordered by a stream, so that what frees it is, too, unless said otherwise.
bool is_stream_ordered(Way way);

enum class Kind : std::uint8_t {
  kAlloc,         // id, bytes, stream, way, device
  kFree,          // id, order, stream
  kRefused,       // bytes, stream, way, device: no memory was given
  kCaptureBegin,  // stream
  kCaptureEnd,    // stream
  kProcessBegin,  // the process's facts: Reader::process_facts()
  kProcessEnd,    // what the process still held is freed
  kLost,          // count: so many events are missing here
};

// When a freed block may be used again.
enum class Order : std::uint8_t {
  kAsAllocated,  // after what the allocation's stream has to do; at once where there is none
  kStream,       // after what Event::stream has to do
  kNow,          // at once: the program waited for the device
};

struct Event {
  Kind kind = Kind::kAlloc;
  Way way = Way::kAsync;
  Order order = Order::kAsAllocated;
  std::uint32_t process = 0;  // numbered from 0 in the order in which they appear
  std::uint32_t device = 0;   // as the header numbers them
  std::uint32_t stream = 0;   // of the process; 0: the legacy default stream
  std::uint64_t id = 0;       // ascending over the whole file, never used twice
  std::uint64_t bytes = 0;    // as the program asked for
  std::uint64_t count = 0;
  std::uint64_t time_us = 0;  // since the beginning of the trace
};

}  // namespace vram::trace
