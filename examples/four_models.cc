// Four models on one card: each always has 2 GiB, none ever more than 12 GiB, and what lies idle
// goes to whoever needs it.
#include <vram/config.h>

#include <cstdio>
#include <vector>

using namespace vram::literals;

int main() try {
  const auto gpu = vram::config::list_physical_devices("GPU").at(0);
  vram::config::set_logical_device_configuration(
      gpu, {{12_GiB, 2_GiB, {}}, {12_GiB, 2_GiB, {}}, {12_GiB, 2_GiB, {}}, {12_GiB, 2_GiB, {}}});

  std::vector<vram::config::DeviceMemory> models;
  for (const auto& device : vram::config::logical_devices_of(gpu)) {
    models.push_back(vram::config::memory(device));
  }

  // The first one has a large batch while the others are idle.
  void* batch = models[0].allocate(10_GiB);
  std::printf("model 0 uses %s", vram::config::memory_info().c_str());

  // Whatever it does, each of the others gets its reserve.
  for (std::size_t i = 1; i < models.size(); ++i) {
    void* weights = models[i].allocate(2_GiB);
    models[i].deallocate(weights);
  }

  // Too much is refused, with the numbers; the program goes on.
  try {
    models[0].deallocate(models[0].allocate(4_GiB));
  } catch (const vram::ResourceExhausted& error) {
    std::printf("refused: %s\n", error.what());
  }

  // When the batch is done, another model may have as much.
  models[0].deallocate(batch);
  models[3].deallocate(models[3].allocate(10_GiB));
  std::puts("four models, one card");
} catch (const vram::Error& error) {
  std::fprintf(stderr, "four_models: %s\n", error.what());
  return 1;
}
