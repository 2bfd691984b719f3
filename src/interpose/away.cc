#include "interpose/away.h"

#include "interpose/elastic.h"

namespace vram::interpose {
namespace {

using wire::Refusal;

ParkingState& state() { return process().parking; }

std::uint32_t ordinal_of(const Device& device) {
  return static_cast<std::uint32_t>(&device - process().device);
}

// device_count: this process does not have it.
std::uint32_t ordinal_of(std::uint32_t account) {
  const Process& self = process();
  std::uint32_t d = 0;
  while (d < self.device_count &&
         !(self.device[d].account && self.device[d].account.device() == account)) {
    ++d;
  }
  return d;
}

Bytes chosen(std::uint32_t ordinal) {
  const residency::ElasticMemory& memory = *elastic_memory();
  return {memory.chosen(ordinal, Owner::kProgram), memory.chosen(ordinal, Owner::kPool)};
}

void set_away(std::uint32_t ordinal, const Bytes& bytes) {
  ParkingState::Away& away = state().away[ordinal];
  away.program.store(bytes.program, std::memory_order_relaxed);
  away.pools.store(bytes.pools, std::memory_order_relaxed);
}

void add_parts(const Device& device, const Bytes& bytes, std::int64_t sign) {
  device.account.add_part(wire::Part::kVirtual, sign * static_cast<std::int64_t>(bytes.program));
  device.account.add_part(wire::Part::kPools, sign * static_cast<std::int64_t>(bytes.pools));
}

}  // namespace

Bytes away(std::uint32_t ordinal) {
  const ParkingState::Away& away = state().away[ordinal];
  return {away.program.load(std::memory_order_relaxed), away.pools.load(std::memory_order_relaxed)};
}

Bytes leaving(std::uint32_t ordinal) { return state().leaving[ordinal]; }

Bytes gone(std::uint32_t ordinal) {
  const residency::ElasticMemory& memory = *elastic_memory();
  return {memory.away(ordinal, Owner::kProgram), memory.away(ordinal, Owner::kPool)};
}

std::uint64_t total(Bytes (*bytes_of)(std::uint32_t)) {
  std::uint64_t bytes = 0;
  for_devices(bytes_of, [&](const Device&, const Bytes& one) { bytes += both(one); });
  return bytes;
}

std::uint64_t elastic_bytes(std::uint32_t account) {
  const residency::ElasticMemory& memory = *elastic_memory();
  const std::uint32_t d = ordinal_of(account);
  return d == process().device_count
             ? 0
             : memory.bytes(d, Owner::kProgram) + memory.bytes(d, Owner::kPool);
}

Refusal choose_to_leave(const ledger::Amount& amount, std::uint64_t back) {
  residency::ElasticMemory& memory = *elastic_memory();
  std::uint64_t missing = residency::ElasticMemory::kEverything;
  std::uint32_t of = 0;
  if (amount.bytes != 0) {
    of = ordinal_of(amount.device);
    if (of == process().device_count) return Refusal::kNothing;
    back += both(gone(of)) - both(away(of));
    missing = amount.bytes > back ? amount.bytes - back : 0;
  }
  const Refusal refusal = memory.choose(missing, of);
  for (std::uint32_t d = 0; d < process().device_count; ++d) {
    const Bytes there = gone(d), more = chosen(d), known = away(d);
    state().leaving[d] = {there.program + more.program - known.program,
                          there.pools + more.pools - known.pools};
  }
  if (refusal != Refusal::kNothing) return refusal;
  return missing == 0 || total(leaving) != 0 ? Refusal::kNone : refusal;
}

void begin_leaving() {
  for_devices(leaving, [](const Device& device, const Bytes& bytes) {
    device.account.moving().begin_release(both(bytes));
  });
}

void end_leaving() {
  for_devices(leaving, [](const Device& device, const Bytes& bytes) {
    add_parts(device, bytes, -1);
    device.account.moving().end_release(both(bytes));
    const std::uint32_t d = ordinal_of(device);
    set_away(d, {away(d).program + bytes.program, away(d).pools + bytes.pools});
  });
}

void keep_leaving() {
  for_devices(leaving, [](const Device& device, const Bytes& bytes) {
    device.account.moving().keep(both(bytes));
  });
}

bool reserve_away() {
  Process& self = process();
  for (std::uint32_t d = 0; d < self.device_count; ++d) {
    const std::uint64_t bytes = both(away(d));
    if (bytes == 0 || self.device[d].account.moving().try_reserve(bytes)) continue;
    while (d-- > 0) {
      const std::uint64_t reserved = both(away(d));
      if (reserved != 0) self.device[d].account.moving().roll_back(reserved);
    }
    return false;
  }
  return true;
}

void commit_away() {
  for_devices(away, [](const Device& device, const Bytes& bytes) {
    add_parts(device, bytes, 1);
    device.account.moving().commit(both(bytes));
  });
}

void roll_back_away() {
  for_devices(away, [](const Device& device, const Bytes& bytes) {
    device.account.moving().roll_back(both(bytes));
  });
}

void forget_away() {
  for (std::uint32_t d = 0; d < process().device_count; ++d) set_away(d, {});
}

std::uint64_t parked_bytes(const Device& device) {
  return is_elastic() ? both(away(ordinal_of(device))) : 0;
}

}  // namespace vram::interpose
