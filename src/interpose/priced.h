#pragma once

// Something whose memory only the card tells, and nobody beforehand: it is made under a price that
// it will hardly exceed, and the price is corrected by measuring.

#include "interpose/measure.h"

namespace vram::interpose {

// To be called after what was made under a price is gone. Where nothing can be measured, the price
// was what it cost.
inline void settle_priced(Device& device, std::uint64_t price) {
  if (!measure(device)) return_price(device, price);
}

// `undo` gives back what the call made; that happens when it cost more than there was room for.
template <typename Call, typename Undo>
CUresult take_priced(Device& device, std::uint64_t price, Call call, Undo undo) {
  const ledger::Account& account = device.account;
  measure_near_limit(device, price);
  if (!account.reserve(price)) return CUDA_ERROR_OUT_OF_MEMORY;
  const CUresult result = call();
  if (result != CUDA_SUCCESS) {
    account.roll_back(price);
    return result;
  }
  account.add_part(wire::Part::kContext, static_cast<std::int64_t>(price));
  account.commit(price);
  (void)measure(device);
  if (!over_limit(device)) return result;
  undo();
  settle_priced(device, price);
  return CUDA_ERROR_OUT_OF_MEMORY;
}

}  // namespace vram::interpose
