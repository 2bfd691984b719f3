#pragma once

// What of this process's elastic memory is on the host, and its charges.
//
// Model. Memory that leaves is pending in its device's account from before the first byte moves
// until all that was chosen is on the host; then it is charged no more, and is `away`. When an
// attempt fails, all of it stays charged, wherever it is by then, and the next one finishes what
// was begun. To come back, all that is away is reserved first and committed when it is there.
//
// Threads: whoever moves the memory (parking.h); parked_bytes() any.

#include "interpose/process.h"
#include "ledger/parking.h"

namespace vram::interpose {

using Bytes = ParkingState::Bytes;
inline std::uint64_t both(const Bytes& bytes) { return bytes.program + bytes.pools; }

// Of the device with this ordinal: what is on the host and charged no more; what is on its way to
// that, and pending; and of what the card has nothing, charged or not.
Bytes away(std::uint32_t ordinal);
Bytes leaving(std::uint32_t ordinal);
Bytes gone(std::uint32_t ordinal);

// Visits each device that has any.
template <typename Visit>
void for_devices(Bytes (*bytes_of)(std::uint32_t), Visit visit) {
  Process& self = process();
  for (std::uint32_t d = 0; d < self.device_count; ++d) {
    const Bytes bytes = bytes_of(d);
    if (both(bytes) != 0) visit(self.device[d], bytes);
  }
}
// Of all devices.
std::uint64_t total(Bytes (*bytes_of)(std::uint32_t));

// Bytes of elastic memory of a device of the job, on the card or parked.
std::uint64_t elastic_bytes(std::uint32_t account);

// Chooses what leaves, of which `back` bytes of the amount are back on the card already. Nothing
// may be chosen although it is not refused: then no more is needed.
wire::Refusal choose_to_leave(const ledger::Amount& amount, std::uint64_t back);
void begin_leaving();
void end_leaving();
void keep_leaving();

// True: every account has room for what is away. What is reserved is pending.
[[nodiscard]] bool reserve_away();
void commit_away();
void roll_back_away();
// Nothing is away any more.
void forget_away();

// Bytes of a device that are on the host, and charged no more.
std::uint64_t parked_bytes(const Device& device);

}  // namespace vram::interpose
