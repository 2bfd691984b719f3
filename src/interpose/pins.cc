#include "interpose/pins.h"

#include "interpose/parking.h"

namespace vram::interpose {
namespace {

bool is_pinned() { return elastic_memory()->pins() != 0 || holds_managed_memory(); }

}  // namespace

bool holds_managed_memory() {
  const Process& self = process();
  for (std::uint32_t d = 0; d < self.device_count; ++d) {
    if (self.device[d].account.part(wire::Part::kManaged) != 0) return true;
  }
  return false;
}

void publish_pins() {
  if (!is_elastic()) return;
  std::atomic<std::uint32_t>& pinned = own_parking().pinned;
  // Of two that publish at once, the later one has seen what the earlier one did.
  for (bool now = is_pinned();; now = is_pinned()) {
    pinned.store(now ? 1 : 0);
    if (is_pinned() == now) return;
  }
}

bool may_pin() {
  if (!is_elastic() || own_parking().pinned.load() != 0) return true;
  const residency::ElasticMemory& memory = *elastic_memory();
  Process& self = process();
  for (std::uint32_t d = 0; d < self.device_count; ++d) {
    const std::uint64_t bytes = memory.bytes(d, Owner::kProgram) + memory.bytes(d, Owner::kPool);
    if (bytes != 0 && !may_stay(self.device[d], self.device[d].account, bytes)) return false;
  }
  return true;
}

}  // namespace vram::interpose
