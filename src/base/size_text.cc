#include "base/size_text.h"

#include <cinttypes>
#include <cstdio>

namespace vram::base {
namespace {

constexpr std::uint64_t kKiB = 1024, kMiB = kKiB * 1024, kGiB = kMiB * 1024, kTiB = kGiB * 1024;

struct Unit {
  std::uint64_t bytes;
  const char* name;
};
constexpr Unit kUnits[] = {{kTiB, "TiB"}, {kGiB, "GiB"}, {kMiB, "MiB"}, {kKiB, "KiB"}, {1, "B"}};

void whole(SizeText* out, std::uint64_t count, const char* unit) {
  std::snprintf(out->text, sizeof out->text, "%" PRIu64 "%s", count, unit);
}

}  // namespace

SizeText format_bytes(std::uint64_t bytes) {
  SizeText out{};
  // Whole MiB below 10 GiB are shown as such: a cap of 2560MiB is not "2.5GiB or so".
  if (bytes < 10 * kGiB && bytes % kGiB != 0 && bytes % kMiB == 0 && bytes != 0) {
    whole(&out, bytes / kMiB, "MiB");
    return out;
  }
  for (const Unit& unit : kUnits) {
    if (bytes < unit.bytes) continue;
    if (bytes % unit.bytes == 0) {
      whole(&out, bytes / unit.bytes, unit.name);
    } else {
      std::snprintf(out.text, sizeof out.text, "%.1f%s",
                    static_cast<double>(bytes) / static_cast<double>(unit.bytes), unit.name);
    }
    return out;
  }
  whole(&out, bytes, "B");
  return out;
}

}  // namespace vram::base
