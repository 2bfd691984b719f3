#pragma once

// Something whose memory only the card tells, and nobody beforehand: it is made under a price that
// it will hardly exceed, and the price is corrected by measuring.

#include "interpose/charged.h"

namespace vram::interpose {

// To be called after what was made under a price is gone. Where nothing can be measured, the price
// was what it cost.
inline void settle_priced(Device& device, std::uint64_t price) {
  if (!measure(device)) return_price(device, price);
}

// As take_charged(). `undo` gives back what the call made, and its note; that happens when it cost
// more than there was room for.
template <typename Call, typename Note, typename Undo>
CUresult take_priced(Device& device, std::uint64_t price, Call call, Note note, Undo undo) {
  const CUresult result =
      take_charged(device, device.account, price, wire::Part::kContext, call, note);
  if (result != CUDA_SUCCESS) return result;
  (void)measure(device);
  if (!over_limit(device)) return result;
  undo();
  settle_priced(device, price);
  return CUDA_ERROR_OUT_OF_MEMORY;
}

}  // namespace vram::interpose
