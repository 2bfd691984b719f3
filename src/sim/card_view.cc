#include "sim/card_view.h"

#include <algorithm>

#include "sim/address_space.h"
#include "sim/memory.h"
#include "sim/pool.h"

namespace vram::sim {

void* card_view(CUdeviceptr address, size_t bytes) {
  if (void* view = host_view(address, bytes)) return view;
  if (!is_device_address(address) || !pool_has_memory(address, std::max<size_t>(bytes, 1))) {
    return nullptr;
  }
  return AddressSpace::get()->shadow(address);
}

}  // namespace vram::sim
