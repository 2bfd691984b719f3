#include "config/limit_rules.h"

#include "base/size_text.h"

namespace vram::config {
namespace {

constexpr std::uint64_t kMiB = std::uint64_t{1} << 20;
// Below it TensorFlow takes a card for a small one, whatever its generation.
constexpr std::uint64_t kSmallCard = std::uint64_t{1} << 31;

}  // namespace

std::uint64_t min_system_memory(std::uint64_t free, int capability_major) {
  // What CUDA, cuDNN and cuBLAS were seen to take on each generation.
  if (free < kSmallCard) return 225 * kMiB;
  if (capability_major <= 6) return 500 * kMiB;
  if (capability_major == 7) return 1050 * kMiB;
  if (capability_major == 8) return 1536 * kMiB;
  return 1800 * kMiB;
}

LimitAnswer single_device_limit(const Card& card, const CardMemory& memory,
                                const LimitRequest& request) {
  LimitAnswer answer;
  if (request.fraction == 0) {
    const std::uint64_t system = min_system_memory(memory.free, card.major);
    answer.bytes =
        static_cast<std::int64_t>(system < memory.free ? memory.free - system : memory.free);
  } else {
    answer.bytes = static_cast<std::int64_t>(static_cast<double>(memory.total) * request.fraction);
  }
  const auto leave = [&](std::int64_t mib, const std::string& source) {
    if (mib >= 0 && static_cast<std::uint64_t>(mib) <= memory.free / kMiB) {
      answer.bytes =
          static_cast<std::int64_t>(memory.free - static_cast<std::uint64_t>(mib) * kMiB);
      return;
    }
    answer.ignored.push_back(source + ": " + std::to_string(mib) + " MiB to leave alone on GPU " +
                             std::to_string(card.ordinal) + " is more than is free (" +
                             base::format_bytes(memory.free).text + "); use less");
  };
  if (request.system_mib > 0) leave(request.system_mib, "gpu_system_memory_size_in_mb");
  if (request.env_system_mib) leave(*request.env_system_mib, "TF_DEVICE_MIN_SYS_MEMORY_IN_MB");
  return answer;
}

std::int64_t virtual_device_limit(float mib) {
  return static_cast<std::int64_t>(mib) * static_cast<std::int64_t>(kMiB);
}

Outcome check_managed(const Card& card) {
  if (card.major >= 6) return Done{};
  return Fault{FaultKind::kInternal,
               "GPU " + std::to_string(card.ordinal) + " has compute capability " +
                   std::to_string(card.major) + "." + std::to_string(card.minor) +
                   ": Unified memory on GPUs with compute capability lower than 6.0 (pre-Pascal "
                   "class GPUs) does not support oversubscription; use a fraction of 1 or less"};
}

}  // namespace vram::config
