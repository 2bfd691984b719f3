#include "ledger/credits.h"

#include "ledger/slots.h"

namespace vram::ledger {
namespace {

std::uint64_t credits_of_living(const wire::Job& job, std::uint32_t device) {
  std::uint64_t credits = 0;
  const std::uint32_t used = slots_used(job);
  for (std::uint32_t slot = 0; slot < used; ++slot) {
    if (!occupied(identity_in(job, slot))) continue;
    credits += job.cell[device][slot].part[static_cast<std::size_t>(wire::Part::kCredits)].load(
        std::memory_order_relaxed);
  }
  return credits;
}

}  // namespace

std::uint64_t in_use(const wire::Job& job, std::uint32_t device, std::uint64_t sum) {
  const std::uint64_t limit = job.device[device].limit.load(std::memory_order_relaxed);
  if (limit == wire::kUnlimited || sum <= limit) return sum;
  const std::uint64_t above = sum - limit;
  const std::uint64_t credits = credits_of_living(job, device);
  return credits < above ? sum - credits : limit;
}

}  // namespace vram::ledger
