// Each case but 0 is a size without a unit, or one that cannot be: the compiler refuses it.
#include "vram/config.h"

using namespace vram::literals;

namespace {

const vram::config::PhysicalDevice gpu{"/physical_device:GPU:0", "GPU"};

#if CASE == 0
[[maybe_unused]] void sizes() {
  vram::config::set_memory_limit(gpu, 4_GiB);
  vram::config::set_memory_limit(gpu, 40_percent);
  vram::config::set_memory_limit(gpu, vram::Bytes::of(4096));
  vram::config::set_logical_device_configuration(gpu,
                                                 {{4_GiB, 1.5_GiB, -1}, {12.5_percent, 0_B, 0}});
}
#elif CASE == 1
void limit() { vram::config::set_memory_limit(gpu, 4096); }
#elif CASE == 2
void limit() { vram::config::set_memory_limit(gpu, {4096}); }
#elif CASE == 3
void limit() { vram::config::set_logical_device_configuration(gpu, {{4096, {}, {}}}); }
#elif CASE == 4
const vram::Bytes bytes(4096);
#elif CASE == 5
const auto share = 140_percent;
#elif CASE == 6
const auto share = 0_percent;
#elif CASE == 7
const auto share = 12.34_percent;
#elif CASE == 8
const auto bytes = 99999999_TiB;
#elif CASE == 9
void limit() { vram::config::set_memory_limit(gpu, 0.4); }
#endif

}  // namespace
