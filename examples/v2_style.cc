// The memory settings of TensorFlow 2, with sizes that carry their unit.
#include <vram/config.h>

#include <cstdio>

using namespace vram::literals;

int main() try {
  for (const auto& gpu : vram::config::list_physical_devices("GPU")) {
    vram::config::set_memory_growth(gpu, true);
    vram::config::set_memory_limit(gpu, 40_percent);
  }
  std::puts(vram::config::status_line().c_str());

  const vram::config::DeviceMemory memory = vram::config::memory("GPU:0");
  void* block = memory.allocate(512_MiB);
  const auto info = vram::config::get_memory_info("GPU:0");
  std::printf("%llu bytes in use, peak %llu\n",
              static_cast<unsigned long long>(info.current.count()),
              static_cast<unsigned long long>(info.peak.count()));
  memory.deallocate(block);
} catch (const vram::Error& error) {
  std::fprintf(stderr, "v2_style: %s\n", error.what());
  return 1;
}
