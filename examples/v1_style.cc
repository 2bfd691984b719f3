// The memory settings of TensorFlow 1: one session a card, each with its own limit.
#include <vram/compat/v1.h>

#include <cstdio>

using namespace vram::literals;
namespace v1 = vram::compat::v1;

int main() try {
  v1::ConfigProto training;
  training.gpu_options.visible_device_list = "0";
  training.gpu_options.per_process_gpu_memory_fraction = 0.6;
  training.gpu_options.allow_growth = true;

  v1::ConfigProto evaluation = training;
  evaluation.gpu_options.visible_device_list = "1";
  evaluation.gpu_options.per_process_gpu_memory_fraction = 0.2;
  evaluation.allow_soft_placement = true;

  v1::Session train(training);
  v1::Session evaluate(evaluation);
  for (const auto& session : {train, evaluate}) {
    const vram::config::DeviceMemory memory = session.memory("GPU:0");
    memory.deallocate(memory.allocate(256_MiB));
    std::printf("limit %llu MiB\n",
                static_cast<unsigned long long>(memory.info().limit.count() / (1_MiB).count()));
  }
} catch (const vram::Error& error) {
  std::fprintf(stderr, "v1_style: %s\n", error.what());
  return 1;
}
