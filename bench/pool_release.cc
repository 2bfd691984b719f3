// How fast idle memory goes back to the driver, and whether work on the card notices.
//
//   pool_release [GIB]
//
// One stream does steps of about a millisecond (fills of 2 GiB) all the time. The pool fills up
// with GIB (10) of blocks of mixed sizes, frees them, and gives everything back; the steps of that
// while are compared with steps before. Needs a card.

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <random>
#include <thread>
#include <vector>

#include "pool/memory_pool.h"
#include "pool/segments.h"

namespace {

using Clock = std::chrono::steady_clock;
using vram::pool::DriverCalls;

double ms(Clock::duration time) { return std::chrono::duration<double, std::milli>(time).count(); }

void expect(CUresult result, const char* what) {
  if (result == CUDA_SUCCESS) return;
  fprintf(stderr, "pool_release: %s failed with error %d\n", what, static_cast<int>(result));
  exit(1);
}

// Steps on a stream of its own, until told to stop; [0] of each pair is when the step ended.
class Steps {
 public:
  Steps(const DriverCalls& driver, CUcontext context, decltype(&::cuMemsetD32Async) fill,
        decltype(&::cuStreamCreate) create)
      : thread_([=, this, &driver] {
          expect(driver.context_push(context), "cuCtxPushCurrent");
          CUstream stream = nullptr;
          CUdeviceptr block = 0;
          constexpr std::size_t kBytes = std::size_t{2} << 30;
          expect(create(&stream, CU_STREAM_NON_BLOCKING), "cuStreamCreate");
          expect(driver.mem_alloc(&block, kBytes), "cuMemAlloc");
          while (!stop_.load()) {
            const auto begin = Clock::now();
            expect(fill(block, 1, kBytes / 4, stream), "cuMemsetD32Async");
            expect(driver.stream_synchronize(stream), "cuStreamSynchronize");
            steps_.push_back({Clock::now(), ms(Clock::now() - begin)});
          }
          (void)driver.mem_free(block);
        }) {}
  void stop() {
    stop_.store(true);
    thread_.join();
  }
  [[nodiscard]] std::vector<double> between(Clock::time_point from, Clock::time_point to) const {
    std::vector<double> found;
    for (const Step& step : steps_) {
      if (step.end >= from && step.end <= to) found.push_back(step.ms);
    }
    std::sort(found.begin(), found.end());
    return found;
  }

 private:
  struct Step {
    Clock::time_point end;
    double ms;
  };
  std::atomic<bool> stop_{false};
  std::vector<Step> steps_;
  std::thread thread_;
};

void print(const char* when, const std::vector<double>& steps) {
  if (steps.empty()) return;
  double sum = 0;
  for (const double step : steps) sum += step;
  printf("| %s | %zu | %.4f | %.4f | %.4f |\n", when, steps.size(),
         sum / static_cast<double>(steps.size()), steps[steps.size() / 2], steps.back());
}

}  // namespace

int main(int argc, char** argv) {
  const double gib = argc > 1 ? atof(argv[1]) : 10;
  const auto opened = vram::pool::open_driver();
  if (!opened) {
    fprintf(stderr, "%s\n", opened.error().message.c_str());
    return 1;
  }
  const DriverCalls& driver = **opened;
  vram::pool::SegmentsOptions options;
  expect(driver.primary_retain(&options.context, 0), "cuDevicePrimaryCtxRetain");
  expect(driver.context_push(options.context), "cuCtxPushCurrent");
  vram::pool::Segments pool;
  expect(pool.open(driver, options), "opening the pool");
  const auto fill = reinterpret_cast<decltype(&::cuMemsetD32Async)>(
      vram::pool::driver_symbol("cuMemsetD32Async"));
  const auto create =
      reinterpret_cast<decltype(&::cuStreamCreate)>(vram::pool::driver_symbol("cuStreamCreate"));

  std::mt19937_64 random(1);
  std::vector<CUdeviceptr> blocks;
  const auto bytes = static_cast<std::uint64_t>(gib * (1 << 30));
  while (pool.reserved() < bytes) {
    CUdeviceptr block = 0;
    expect(pool.allocate(&block, std::uint64_t{1} << (12 + random() % 16), nullptr), "a block");
    blocks.push_back(block);
  }
  Steps steps(driver, options.context, fill, create);
  std::this_thread::sleep_for(std::chrono::seconds(2));
  for (const CUdeviceptr block : blocks) (void)pool.free(block, nullptr);
  const std::uint64_t held = pool.reserved();
  const auto begin = Clock::now();
  const std::uint64_t given = pool.trim(0);
  const auto end = Clock::now();
  std::this_thread::sleep_for(std::chrono::milliseconds(200));
  steps.stop();
  printf("%.2f of %.2f GiB (%.1f %%) given back in %.1f ms: %.1f ms for 10 GiB\n",
         static_cast<double>(given) / (1 << 30), static_cast<double>(held) / (1 << 30),
         100 * static_cast<double>(given) / static_cast<double>(held), ms(end - begin),
         ms(end - begin) * 10 * (1 << 30) / static_cast<double>(given));
  printf("| steps | count | mean, ms | median | longest |\n|---|---|---|---|---|\n");
  print("before", steps.between(begin - std::chrono::milliseconds(1500), begin));
  print("while it went back", steps.between(begin, end));
  return 0;
}
