#include "trace/event.h"

#include <array>

namespace vram::trace {
namespace {

constexpr std::array<const char*, kWayCount> kWords = {
    "async",  "pool",  "alloc",    "pitch", "managed", "create",  "array",
    "mipmap", "graph", "captured", "ipc",   "import",  "external"};

}  // namespace

const char* word_of(Way way) { return kWords.at(static_cast<std::size_t>(way)); }

std::optional<Way> way_of(const std::string& word) {
  for (std::size_t i = 0; i < kWords.size(); ++i) {
    if (word == kWords[i]) return static_cast<Way>(i);
  }
  return std::nullopt;
}

bool counts(Way way) { return way != Way::kCaptured && way != Way::kIpc && way != Way::kImport; }

bool is_stream_ordered(Way way) {
  return way == Way::kAsync || way == Way::kPool || way == Way::kCaptured;
}

}  // namespace vram::trace
