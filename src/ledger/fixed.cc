#include "ledger/fixed.h"

#include "ledger/ledger.h"

namespace vram::ledger {

std::uint64_t fixed_bytes(const wire::Job& job, std::uint32_t device, std::uint32_t slot) {
  const std::uint64_t all = share_bytes(job, device, slot);
  if (job.header.stays != 0 || job.parking[slot].pinned.load() != 0) return all;
  const std::uint64_t fixed =
      job.fixed[device][slot].load() * wire::kGranule + beside_bytes(job, device, slot);
  return fixed < all ? fixed : all;
}

std::uint64_t fixed_bytes(const wire::Job& job, std::uint32_t device) {
  std::uint64_t bytes = 0;
  for (std::uint32_t slot = 0; slot < slots_used(job); ++slot) {
    if (occupied(identity_in(job, slot))) bytes += fixed_bytes(job, device, slot);
  }
  return bytes;
}

bool may_stay(const wire::Job& job, std::uint32_t device, std::uint64_t more) {
  const std::uint64_t limit = job.device[device].stay_limit.load();
  if (limit == 0 || job.header.pools != wire::Pools::kElastic) return true;
  const std::uint64_t fixed = fixed_bytes(job, device);
  return fixed <= limit && more <= limit - fixed;
}

}  // namespace vram::ledger
