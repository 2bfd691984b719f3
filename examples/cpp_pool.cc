// A pool of one's own, in C++.
#include <vram/pool.h>

#include <cstdio>

using namespace vram::literals;

int main() try {
  vram::PoolOptions options;
  options.limit = 1_GiB;
  vram::Pool pool(options);

  void* weights = pool.allocate(600_MiB);
  try {
    pool.deallocate(pool.allocate(600_MiB));
  } catch (const vram::ResourceExhausted& error) {
    std::printf("refused: %s\n", error.what());
  }
  pool.deallocate(weights);
  pool.trim();
  std::printf("%s", pool.report().c_str());
} catch (const vram::Error& error) {
  std::fprintf(stderr, "cpp_pool: %s\n", error.what());
  return 1;
}
