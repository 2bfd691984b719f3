// A trace, whatever is in it, is read to its end or refused with its place.
#include <cstdint>
#include <cstdlib>

#include "trace/live.h"
#include "trace/reader.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  if (size == 0) return 0;
  FILE* file = fmemopen(const_cast<std::uint8_t*>(data), size, "r");
  if (file == nullptr) std::abort();
  auto reader = vram::trace::Reader::from(file, "F");
  if (!reader) {
    if (reader.error().compare(0, 2, "F:") != 0) std::abort();
    return 0;
  }
  vram::trace::Live live;
  vram::trace::Event event;
  std::uint64_t last_us = 0;
  for (;;) {
    const auto more = reader->next(&event);
    if (!more) {
      if (more.error().compare(0, 2, "F:") != 0) std::abort();
      // After a failure there is nothing.
      const auto after = reader->next(&event);
      if (!after || *after) std::abort();
      return 0;
    }
    if (!*more) return 0;
    if (event.time_us < last_us) std::abort();
    last_us = event.time_us;
    live.apply(event);
  }
}
