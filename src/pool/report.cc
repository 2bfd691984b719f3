#include "pool/pools.h"

namespace vram::pool {
namespace {

std::uint64_t free_of(const Info& info) {
  return info.reserved > info.in_use ? info.reserved - info.in_use : 0;
}

// The limit under which the request would have fitted, in whole MiB.
std::uint64_t fitting_limit(const Terms& terms, std::uint64_t bytes) {
  constexpr std::uint64_t kMiB = std::uint64_t{1} << 20;
  return (terms.counted + bytes + kMiB - 1) / kMiB * kMiB;
}

}  // namespace

double fragmentation_of(const Info& info) {
  const std::uint64_t free = free_of(info);
  if (free == 0 || info.largest_free >= free) return 0;
  return static_cast<double>(free - info.largest_free) / static_cast<double>(free);
}

std::string refusal(const Info& info, std::uint64_t bytes, CUresult result, const Terms& terms) {
  const std::string wanted = "vram: out of memory: " + in_words(bytes) + " asked for, " +
                             in_words(info.in_use) + " of " + in_words(info.reserved) +
                             " reserved in use";
  if (result != CUDA_ERROR_OUT_OF_MEMORY) {
    return wanted + "; the driver answered with error " + std::to_string(static_cast<int>(result));
  }
  if (info.limit != kNoLimit && fitting_limit(terms, bytes) > info.limit) {
    return wanted + ", limit " + in_words(info.limit) + "; a limit of " +
           in_words(fitting_limit(terms, bytes)) + " would do";
  }
  return wanted + "; " + terms.otherwise;
}

std::string report_of(const Info& info, std::uint64_t wanted) {
  char ratio[16];
  snprintf(ratio, sizeof ratio, "%.1f %%", fragmentation_of(info) * 100);
  std::string text = wanted == 0 ? "" : refusal(info, wanted, CUDA_ERROR_OUT_OF_MEMORY) + "\n";
  text += "  in use        " + in_words(info.in_use) + " in " + std::to_string(info.live_blocks) +
          " blocks, at most " + in_words(info.peak_in_use) + " so far\n";
  text += "  reserved      " + in_words(info.reserved) + ", at most " +
          in_words(info.peak_reserved) + " so far\n";
  text += "  free          " + in_words(free_of(info)) + ", the largest hole " +
          in_words(info.largest_free) + ", fragmentation " + ratio + "\n";
  text += "  limit         " + (info.limit == kNoLimit ? "none" : in_words(info.limit)) + "\n";
  text += "  requests      " + std::to_string(info.allocations) + ", the largest " +
          in_words(info.largest_request) + ", refused " + std::to_string(info.failures) + "\n";
  return text;
}

}  // namespace vram::pool
